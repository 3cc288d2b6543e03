-- The character behind the colon ends the range.
SELECT
    substr(name, 8) AS route,
    value AS since
FROM outbox_meta
WHERE name >= 'paused:'
    AND name < 'paused;'
ORDER BY name;
