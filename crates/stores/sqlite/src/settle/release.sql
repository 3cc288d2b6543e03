UPDATE outbox_event NOT INDEXED
SET
    starts = settled.value ->> 3,
    handlers = coalesce(settled.value ->> 4, handlers),
    available_at = iif(settled.value ->> 1 < 0, available_at, due_at),
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = settled.value ->> 0
    AND coalesce(settled.value ->> 2 = CAST(event_id AS TEXT), TRUE)
    AND settled.value ->> 1 IN (
        token,
        (
            SELECT ~((lease.epoch << 8) | lease.event_partition)
            FROM outbox_partition AS lease
            WHERE lease.event_partition = outbox_event.event_partition
        )
    )
    AND status NOT IN (1, 3)
    AND (
        settled.value ->> 4 IS NULL
        OR settled.value ->> 1 >= 0
        OR coalesce(handlers, '') IN (coalesce(settled.value ->> 5, ''), settled.value ->> 4)
    )
RETURNING seq;
