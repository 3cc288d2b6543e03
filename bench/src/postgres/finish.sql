UPDATE outbox_event AS event
SET
    status = 1,
    done_at = statement_timestamp()
FROM outbox_partition AS lease
WHERE event.seq = ANY($1)
    AND event.event_partition = $2
    AND event.status IN (0, 2)
    AND lease.event_partition = $2
    AND lease.owner_name = 'by hand'
    AND lease.epoch = 1;
