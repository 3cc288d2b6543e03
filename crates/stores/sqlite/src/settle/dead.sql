UPDATE outbox_event NOT INDEXED
SET
    status = 3,
    attempts = iif(settled.value ->> 3, (settled.value ->> 2) + 1, max(attempts, 0)),
    starts = settled.value ->> 4,
    last_error = settled.value ->> 5,
    reason = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS settled
WHERE seq = settled.value ->> 0
    AND token = settled.value ->> 1
    AND (attempts = settled.value ->> 2 OR NOT settled.value ->> 3)
    AND status NOT IN (1, 3)
RETURNING seq;
