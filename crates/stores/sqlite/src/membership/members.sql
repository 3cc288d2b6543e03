SELECT
    name,
    incarnation,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - joined_at AS joined_ago,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - seen_at AS silent_for
FROM outbox_instance
WHERE until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    AND until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
ORDER BY name, incarnation;
