DELETE FROM outbox_parked AS parked
USING unnest($1::smallint[], $2::text[]) AS skipped (event_partition, event_key)
WHERE parked.event_partition = skipped.event_partition
    AND parked.event_key = skipped.event_key;
