DELETE FROM outbox_parked
WHERE EXISTS (
    SELECT 1
    FROM outbox_event
    WHERE outbox_event.event_id = outbox_parked.event_id
        AND +outbox_event.seq BETWEEN ?1 AND ?2
)
RETURNING event_id;
