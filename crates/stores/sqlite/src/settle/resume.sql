UPDATE outbox_event NOT INDEXED
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (SELECT value FROM json_each(?3))
    AND status NOT IN (1, 3)
    AND locked_by <> ?1
    AND length(locked_by) = length(?1)
    AND substr(locked_by, 1, length(?2)) = ?2;
