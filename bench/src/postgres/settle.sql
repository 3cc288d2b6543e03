UPDATE outbox_event
SET
    status = 1,
    done_at = statement_timestamp(),
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq = ANY($1)
    AND token = $2
    AND status IN (0, 2);
