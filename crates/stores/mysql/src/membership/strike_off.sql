DELETE FROM outbox_instance
WHERE until <= UTC_TIMESTAMP(6)
    OR until > UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
    OR (owner = ? AND incarnation <> ?)
