SELECT seq
FROM outbox_event INDEXED BY outbox_event_pending
WHERE status NOT IN (1, 3)
    AND locked_by <> ?1
    AND length(locked_by) = length(?1)
    AND substr(locked_by, 1, length(?2)) = ?2;
