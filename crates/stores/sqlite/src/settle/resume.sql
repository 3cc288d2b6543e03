UPDATE outbox_event NOT INDEXED
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (SELECT value FROM json_each(?3))
    AND status IN (0, 2)
    AND locked_by <> ?1
    AND length(locked_by) = length(?1)
    AND substr(locked_by, 1, length(?2)) = ?2;
