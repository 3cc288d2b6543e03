UPDATE outbox_event AS event
SET event_partition = placed.event_partition
FROM unnest($1::bigint[], $2::smallint[]) AS placed (seq, event_partition)
WHERE event.seq = placed.seq
    -- Not as the index of unplaced rows says it, or the planner would conclude that it will do.
    AND (event.event_partition IS NULL OR event.event_partition NOT BETWEEN 0 AND 255);
