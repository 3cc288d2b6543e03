UPDATE outbox_event NOT INDEXED
SET
    status = 2,
    starts = settled.value ->> 2,
    available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + (settled.value ->> 3),
    reason = settled.value ->> 4,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = settled.value ->> 0
    AND token = settled.value ->> 1
    AND status NOT IN (1, 3)
RETURNING seq;
