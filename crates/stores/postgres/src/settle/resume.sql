WITH held AS (
    SELECT seq
    FROM outbox_event
    WHERE (SELECT value FROM outbox_meta WHERE name = 'mode') IS DISTINCT FROM 'ownership'
        AND status IN (0, 2)
        AND locked_by <> $1
        AND length(locked_by) = length($1)
        AND left(locked_by, length($2)) = $2
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox_event AS event
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM held
WHERE event.seq = held.seq;
