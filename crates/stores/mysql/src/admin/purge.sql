DELETE old
FROM outbox_event AS old FORCE INDEX (PRIMARY)
LEFT JOIN outbox_parked AS parked ON parked.event_id = old.event_id
WHERE old.seq IN (?)
    AND old.status IN (1, 3)
    AND parked.event_id IS NULL
