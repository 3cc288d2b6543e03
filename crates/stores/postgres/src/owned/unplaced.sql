SELECT seq, event_key
FROM outbox_event
WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
ORDER BY seq
LIMIT $1;
