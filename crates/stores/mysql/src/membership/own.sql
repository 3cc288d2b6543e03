SELECT event_partition, incarnation
FROM outbox_partition
WHERE owner = ?
