DELETE FROM outbox_event
WHERE seq IN (?)
    AND token = ?
    AND status IN (0, 2)
