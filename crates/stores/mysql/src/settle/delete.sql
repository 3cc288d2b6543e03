DELETE held
FROM outbox_event AS held FORCE INDEX (PRIMARY)
WHERE held.seq IN (?)
    AND held.token = ?
    AND held.status IN (0, 2)
