UPDATE outbox_event AS replayed FORCE INDEX (outbox_event_id)
LEFT JOIN outbox_parked AS parked ON parked.event_id = replayed.event_id
LEFT JOIN outbox_meta AS owned ON owned.name = 'mode' AND owned.value = 'ownership'
SET
    replayed.status = 2,
    replayed.attempts = 0,
    replayed.starts = 0,
    replayed.due_at = UTC_TIMESTAMP(6),
    replayed.available_at = UTC_TIMESTAMP(6),
    replayed.reason = IF(owned.name IS NULL OR parked.event_id IS NOT NULL, NULL, 'replayed'),
    replayed.stands_apart = IF(owned.name IS NULL OR parked.event_id IS NOT NULL, NULL, 1)
WHERE replayed.event_id IN (?)
    AND replayed.status = 3
