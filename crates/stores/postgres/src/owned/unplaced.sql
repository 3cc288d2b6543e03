SELECT seq, event_key
FROM outbox_event
WHERE event_partition IS NULL
    AND status IN (0, 2)
ORDER BY seq
LIMIT $1;
