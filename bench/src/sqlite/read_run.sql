SELECT seq, event_id, event_type, aggregate_type, aggregate_id, event_key, headers, attempts, payload
FROM outbox_event INDEXED BY outbox_event_fresh
WHERE status NOT IN (1, 2, 3)
    AND event_partition = ?1
    AND seq > ?2
ORDER BY seq
LIMIT ?3;
