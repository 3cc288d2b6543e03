SELECT
    seq,
    (extract(epoch FROM created_at) * 1000000)::bigint
FROM outbox_event
WHERE event_id = $1;
