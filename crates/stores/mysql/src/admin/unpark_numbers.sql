DELETE parked
FROM outbox_parked AS parked
STRAIGHT_JOIN outbox_event AS replayed FORCE INDEX (outbox_event_id) ON replayed.event_id = parked.event_id
WHERE replayed.seq BETWEEN ? AND ?
    AND replayed.status = 2
