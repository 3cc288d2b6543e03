INSERT INTO outbox_parked (event_key, event_partition, event_id)
SELECT dead.event_key, dead.event_partition, dead.event_id
FROM outbox_event AS dead FORCE INDEX (PRIMARY)
WHERE dead.seq IN (?)
    AND dead.event_key IS NOT NULL
ON DUPLICATE KEY UPDATE event_id = outbox_parked.event_id
