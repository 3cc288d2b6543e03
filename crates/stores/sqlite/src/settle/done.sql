UPDATE outbox_event NOT INDEXED
SET
    status = 1,
    done_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    reason = NULL,
    handlers = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
    AND token = ?2
    AND status NOT IN (1, 3)
RETURNING seq;
