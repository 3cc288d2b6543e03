-- The number alone would do; but then MySQL goes through a small table, and locks all of it.
SELECT seq, status
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
ORDER BY seq
FOR UPDATE SKIP LOCKED
