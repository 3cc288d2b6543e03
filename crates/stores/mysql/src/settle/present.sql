SELECT seq
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
