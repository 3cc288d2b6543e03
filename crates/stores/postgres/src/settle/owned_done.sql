UPDATE outbox_event AS event
SET
    status = 1,
    done_at = statement_timestamp(),
    reason = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS settled (seq, token, event_id)
-- A token is the complement of the epoch and the partition, which is its lowest byte.
JOIN outbox_partition AS lease ON lease.event_partition = ~settled.token & 255
WHERE event.seq = settled.seq
    AND event.event_id IS NOT DISTINCT FROM settled.event_id
    AND event.event_partition = lease.event_partition
    AND event.status NOT IN (1, 3)
    AND lease.epoch = ~settled.token >> 8
RETURNING settled.seq, settled.token;
