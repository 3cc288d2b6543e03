DELETE discarded
FROM outbox_event AS discarded FORCE INDEX (PRIMARY)
WHERE discarded.seq IN (?)
    AND discarded.status = 3
