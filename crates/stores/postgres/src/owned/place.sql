UPDATE outbox_event AS event
SET event_partition = placed.event_partition
FROM unnest($1::bigint[], $2::smallint[]) AS placed (seq, event_partition)
WHERE event.seq = placed.seq
    AND event.event_partition IS NULL;
