DELETE FROM outbox_event NOT INDEXED
WHERE status = 3
    AND seq IN (
        SELECT outbox_event.seq
        FROM json_each(?1) AS selected
        CROSS JOIN outbox_event ON outbox_event.event_id = selected.value
    )
RETURNING event_id;
