INSERT INTO outbox_parked (event_key, event_partition, event_id, parked_at)
SELECT
    event_key,
    event_partition,
    event_id,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
FROM outbox_event NOT INDEXED
WHERE seq IN (SELECT value FROM json_each(?1))
    AND event_key IS NOT NULL
ORDER BY seq
ON CONFLICT DO NOTHING;
