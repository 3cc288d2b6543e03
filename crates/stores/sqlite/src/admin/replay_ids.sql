UPDATE outbox_event NOT INDEXED
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    reason = iif(
        EXISTS (SELECT 1 FROM outbox_meta WHERE name = 'mode' AND value = 'ownership')
            AND event_id NOT IN (SELECT value FROM json_each(?2)),
        'replayed',
        NULL
    )
WHERE status = 3
    AND seq IN (
        SELECT outbox_event.seq
        FROM json_each(?1) AS selected
        CROSS JOIN outbox_event ON outbox_event.event_id = selected.value
    );
