DELETE FROM outbox_event
WHERE seq IN (?)
    AND status = 3
