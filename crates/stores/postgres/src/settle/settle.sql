UPDATE outbox_event AS event
SET
    status = coalesce(settled.status, event.status),
    attempts = coalesce(settled.attempts + 1, event.attempts),
    starts = coalesce(settled.starts, event.starts),
    due_at = coalesce(statement_timestamp() + settled.due_in * interval '1 microsecond', event.due_at),
    available_at = CASE
        WHEN settled.status IS NULL THEN event.due_at
        ELSE coalesce(statement_timestamp() + settled.available_in * interval '1 microsecond', event.available_at)
    END,
    done_at = CASE WHEN settled.status = 1 THEN statement_timestamp() ELSE event.done_at END,
    last_error = coalesce(settled.error, event.last_error),
    reason = CASE WHEN settled.status IS NULL THEN event.reason ELSE settled.reason END,
    handlers = coalesce(settled.handlers, event.handlers),
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM unnest(
    $1::bigint[],
    $2::bigint[],
    $3::smallint[],
    $4::integer[],
    $5::integer[],
    $6::bigint[],
    $7::bigint[],
    $8::text[],
    $9::text[],
    $10::text[]
) AS settled (seq, token, status, attempts, starts, due_in, available_in, error, reason, handlers)
WHERE event.seq = settled.seq
    AND event.token = settled.token
    AND event.attempts = coalesce(settled.attempts, event.attempts)
    AND event.status NOT IN (1, 3)
RETURNING settled.seq, settled.token;
