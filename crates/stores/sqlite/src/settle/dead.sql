UPDATE outbox_event NOT INDEXED
SET
    status = 3,
    attempts = iif(settled.value ->> 4, (settled.value ->> 3) + 1, max(attempts, 0)),
    starts = settled.value ->> 5,
    last_error = coalesce(settled.value ->> 6, last_error),
    reason = NULL,
    handlers = coalesce(settled.value ->> 7, handlers),
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
    AND (attempts = settled.value ->> 3 OR NOT settled.value ->> 4)
    AND status NOT IN (1, 3)
    AND (
        settled.value ->> 7 IS NULL
        OR settled.value ->> 1 >= 0
        OR coalesce(handlers, '') IN (coalesce(settled.value ->> 8, ''), settled.value ->> 7)
    )
RETURNING seq;
