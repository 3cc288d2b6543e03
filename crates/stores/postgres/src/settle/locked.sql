WITH free AS (
    SELECT seq
    FROM outbox_event
    WHERE seq = ANY ($1)
    ORDER BY seq
    FOR UPDATE SKIP LOCKED
)
SELECT seq
FROM outbox_event
WHERE seq = ANY ($1)
    AND seq NOT IN (SELECT seq FROM free);
