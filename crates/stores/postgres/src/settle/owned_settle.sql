-- The partitions are told in their order, in which everybody locks them.
WITH fence AS MATERIALIZED (
    SELECT
        lease.event_partition,
        lease.epoch
    FROM unnest($1::smallint[], $2::bigint[]) AS told (event_partition, epoch)
    JOIN outbox_partition AS lease ON lease.event_partition = told.event_partition
    WHERE lease.epoch = told.epoch
    FOR SHARE OF lease
),
changed AS (
    UPDATE outbox_event AS event
    SET
        status = coalesce(settled.status, event.status),
        attempts = coalesce(settled.attempts + 1, event.attempts),
        starts = settled.starts,
        due_at = coalesce(statement_timestamp() + settled.due_in * interval '1 microsecond', event.due_at),
        available_at = CASE
            WHEN settled.is_endless THEN 'infinity'
            ELSE coalesce(statement_timestamp() + settled.available_in * interval '1 microsecond', event.available_at)
        END,
        last_error = coalesce(settled.error, event.last_error),
        reason = CASE WHEN settled.status IS NULL THEN event.reason ELSE settled.reason END,
        handlers = coalesce(settled.handlers, event.handlers),
        locked_by = NULL,
        locked_at = NULL,
        token = NULL
    FROM unnest(
        $3::bigint[],
        $4::bigint[],
        $5::text[],
        $6::smallint[],
        $7::integer[],
        $8::integer[],
        $9::bigint[],
        $10::bigint[],
        $11::text[],
        $12::text[],
        $13::text[],
        $14::boolean[],
        $15::boolean[],
        $16::text[]
    ) AS settled (
        seq,
        token,
        event_id,
        status,
        attempts,
        starts,
        due_in,
        available_in,
        error,
        reason,
        handlers,
        is_endless,
        parks,
        handlers_before
    )
    -- A token is the complement of the epoch and the partition, which is its lowest byte.
    JOIN fence ON fence.event_partition = ~settled.token & 255
        AND fence.epoch = ~settled.token >> 8
    WHERE event.seq = settled.seq
        AND event.event_id IS NOT DISTINCT FROM settled.event_id
        AND event.event_partition = fence.event_partition
        AND event.attempts = coalesce(settled.attempts, event.attempts)
        AND event.status NOT IN (1, 3)
        AND (
            settled.handlers IS NULL
            OR event.handlers IS NOT DISTINCT FROM settled.handlers_before
            OR event.handlers = settled.handlers
        )
    RETURNING
        settled.seq,
        settled.token,
        settled.parks,
        event.event_partition,
        event.event_key,
        event.event_id
),
parked AS (
    INSERT INTO outbox_parked (event_partition, event_key, event_id, parked_at)
    SELECT
        event_partition,
        event_key,
        event_id,
        statement_timestamp()
    FROM changed
    WHERE parks
        AND event_key IS NOT NULL
    ON CONFLICT (event_partition, event_key) DO NOTHING
)
SELECT seq, token
FROM changed;
