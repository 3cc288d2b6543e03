UPDATE outbox_event NOT INDEXED
SET
    status = 1,
    attempts = iif(attempts = settled.value ->> 3, attempts + 1, max(attempts, 0)),
    done_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    last_error = coalesce(settled.value ->> 4, last_error),
    reason = NULL,
    handlers = NULL,
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
RETURNING seq;
