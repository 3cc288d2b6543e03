DELETE FROM outbox_instance
WHERE owner = ?
    AND incarnation = ?
