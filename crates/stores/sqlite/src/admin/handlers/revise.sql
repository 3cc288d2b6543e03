-- A row that waits for nothing but its key goes on waiting for it.
UPDATE outbox_event NOT INDEXED
SET
    handlers = revised.value ->> 3,
    available_at = iif(status = 3 OR available_at = 9223372036854775807, available_at, due_at),
    reason = iif(substr(reason, 1, 6) = 'hold: ', NULL, reason),
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM json_each(?1) AS revised
WHERE seq = revised.value ->> 0
    AND event_id = revised.value ->> 1
    AND handlers = revised.value ->> 2
    AND status <> 1
    AND NOT (
        token IS NOT NULL
        AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
    )
RETURNING seq;
