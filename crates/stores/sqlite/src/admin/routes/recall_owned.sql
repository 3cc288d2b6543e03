UPDATE outbox_event NOT INDEXED
SET
    available_at = due_at,
    reason = NULL
WHERE seq IN (
    WITH RECURSIVE visit (event_partition) AS (
        SELECT 0
        UNION ALL
        SELECT event_partition + 1
        FROM visit
        WHERE event_partition < 255
    )
    SELECT aside.seq
    FROM visit
    CROSS JOIN outbox_event AS aside INDEXED BY outbox_event_aside
    WHERE aside.status = 2
        AND aside.event_partition = visit.event_partition
        AND aside.available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND aside.available_at < 9223372036854775807
        AND aside.reason = ?1
    LIMIT ?2
);
