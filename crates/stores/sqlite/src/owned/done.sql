UPDATE outbox_event NOT INDEXED
SET
    status = 1,
    done_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    reason = NULL,
    handlers = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = CAST(settled.key AS INTEGER)
    AND settled.value = (
        SELECT ~((lease.epoch << 8) | lease.event_partition) || iif(instr(settled.value, '/'), '/' || event_id, '')
        FROM outbox_partition AS lease
        WHERE lease.event_partition = outbox_event.event_partition
    )
    AND status NOT IN (1, 3)
RETURNING seq;
