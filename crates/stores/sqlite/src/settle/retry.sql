UPDATE outbox_event NOT INDEXED
SET
    status = 2,
    attempts = iif(settled.value ->> 3, (settled.value ->> 2) + 1, attempts),
    starts = settled.value ->> 4,
    due_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + (settled.value ->> 5),
    available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + (settled.value ->> 5),
    last_error = settled.value ->> 6,
    reason = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = settled.value ->> 0
    AND settled.value ->> 1 IN (
        token,
        (
            SELECT ~((lease.epoch << 8) | lease.event_partition)
            FROM outbox_partition AS lease
            WHERE lease.event_partition = outbox_event.event_partition
        )
    )
    AND (attempts = settled.value ->> 2 OR NOT settled.value ->> 3)
    AND status NOT IN (1, 3)
RETURNING seq;
