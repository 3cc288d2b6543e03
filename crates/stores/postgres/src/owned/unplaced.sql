SELECT seq, event_key
FROM outbox_event
WHERE event_partition IS NULL
ORDER BY seq
LIMIT $1;
