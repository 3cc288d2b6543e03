SELECT seq, token, attempts
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
    AND token IS NOT NULL
    AND status IN (0, 2)
ORDER BY seq
FOR UPDATE
