UPDATE outbox_event NOT INDEXED
SET
    starts = settled.value ->> 2,
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = settled.value ->> 0
    AND token = settled.value ->> 1
    AND status NOT IN (1, 3)
RETURNING seq;
