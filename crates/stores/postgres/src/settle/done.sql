UPDATE outbox_event AS event
SET
    status = 1,
    done_at = statement_timestamp(),
    reason = NULL,
    handlers = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM unnest($1::bigint[], $2::bigint[]) AS settled (seq, token)
WHERE event.seq = settled.seq
    AND event.token = settled.token
    AND event.status NOT IN (1, 3)
RETURNING settled.seq, settled.token;
