DELETE FROM outbox_event AS event
USING unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::text[])
    AS settled (seq, token, event_partition, epoch, event_id)
JOIN outbox_partition AS lease ON lease.event_partition = settled.event_partition
WHERE event.seq = settled.seq
    AND event.event_id IS NOT DISTINCT FROM settled.event_id
    AND event.event_partition = settled.event_partition
    AND event.status NOT IN (1, 3)
    AND lease.epoch = settled.epoch
RETURNING settled.seq, settled.token;
