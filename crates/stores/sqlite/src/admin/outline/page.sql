SELECT
    seq,
    event_id,
    event_type,
    aggregate_id,
    event_key,
    status,
    attempts,
    created_at,
    done_at,
    last_error,
    reason
FROM outbox_event NOT INDEXED
WHERE seq > ?1
ORDER BY seq
LIMIT ?2;
