SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_pending)
WHERE is_pending = 1
    AND locked_by <> ?
    AND CHAR_LENGTH(locked_by) = CHAR_LENGTH(?)
    AND LEFT(locked_by, CHAR_LENGTH(?)) = ?
