UPDATE outbox_event AS event
SET event_partition = placed.event_partition
FROM unnest($1::bigint[], $2::smallint[]) AS placed (seq, event_partition)
WHERE event.seq = placed.seq
    -- Not IS NULL, from which the planner would conclude that the index of unplaced rows will do.
    AND coalesce(event.event_partition, -1) = -1;
