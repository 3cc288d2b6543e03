SELECT seq, event_key
FROM outbox_event INDEXED BY outbox_event_unplaced
WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
    AND status <> 1
ORDER BY seq
LIMIT ?1;
