DELETE old
FROM outbox_event AS old FORCE INDEX (PRIMARY)
WHERE old.seq IN (?)
    AND old.status IN (1, 3)
