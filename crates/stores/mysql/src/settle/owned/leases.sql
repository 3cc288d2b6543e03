SELECT event_partition, epoch
FROM outbox_partition FORCE INDEX (PRIMARY)
WHERE event_partition IN (?)
ORDER BY event_partition
LOCK IN SHARE MODE
