UPDATE outbox_event INDEXED BY outbox_event_dead
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    reason = iif(
        EXISTS (SELECT 1 FROM outbox_meta WHERE name = 'mode' AND value = 'ownership')
            AND event_id NOT IN (SELECT value FROM json_each(?3)),
        'replayed',
        NULL
    )
WHERE status = 3
    AND seq BETWEEN ?1 AND ?2;
