SELECT seq, event_id, token, event_partition, attempts, handlers, event_key IS NOT NULL AS has_key
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
    AND status IN (0, 2)
ORDER BY seq
FOR UPDATE
