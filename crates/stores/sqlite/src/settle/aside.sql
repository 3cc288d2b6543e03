UPDATE outbox_event NOT INDEXED
SET
    status = 2,
    starts = settled.value ->> 3,
    available_at = coalesce(
        CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + (settled.value ->> 4),
        iif(event_key IS NULL, NULL, 9223372036854775807)
    ),
    reason = settled.value ->> 5,
    handlers = coalesce(settled.value ->> 6, handlers),
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
        settled.value ->> 6 IS NULL
        OR settled.value ->> 1 >= 0
        OR coalesce(handlers, '') IN (coalesce(settled.value ->> 7, ''), settled.value ->> 6)
    )
RETURNING seq;
