UPDATE outbox_event AS event
SET
    status = 1,
    attempts = CASE WHEN event.attempts = settled.attempts THEN settled.attempts + 1 ELSE event.attempts END,
    done_at = statement_timestamp(),
    last_error = coalesce(settled.error, event.last_error),
    reason = NULL,
    handlers = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM unnest(
    $1::bigint[],
    $2::bigint[],
    $3::text[],
    $5::integer[],
    $6::text[]
) AS settled (seq, token, event_id, attempts, error)
WHERE event.seq = settled.seq
    AND event.event_id IS NOT DISTINCT FROM settled.event_id
    AND event.event_partition = ~settled.token & 255
    AND event.status NOT IN (1, 3)
    -- A token is the complement of the epoch and the partition, which is its lowest byte.
    AND settled.token = ANY (
        ARRAY(
            SELECT ~(epoch << 8 | event_partition)
            FROM outbox_partition
            WHERE event_partition = ANY ($4::smallint[])
        )
    )
RETURNING settled.seq, settled.token;
