DELETE event
FROM outbox_partition AS lease
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.event_partition = lease.event_partition
WHERE lease.event_partition = ?
    AND lease.owner = 'by hand'
    AND lease.epoch = 1
    AND event.status IN (0, 2)
    AND event.seq IN (?)
