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
FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[]) AS settled (seq, token, attempts, error)
WHERE event.seq = settled.seq
    AND event.token = settled.token
    AND event.status NOT IN (1, 3)
RETURNING settled.seq, settled.token;
