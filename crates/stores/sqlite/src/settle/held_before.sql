SELECT seq
FROM outbox_event INDEXED BY outbox_event_pending
WHERE status IN (0, 2)
    AND locked_by <> ?1
    AND length(locked_by) = length(?1)
    AND substr(locked_by, 1, length(?2)) = ?2;
