-- One row of NULL alone, if a row has no partition yet: it may come before one of its key that is read here. In one
-- statement, for between two another process could give it its partition, and nothing would be taken for all there is.
SELECT
    outbox_event.seq,
    outbox_event.event_id,
    outbox_event.event_type,
    outbox_event.aggregate_type,
    outbox_event.aggregate_id,
    outbox_event.tenant_id,
    outbox_event.event_key,
    outbox_event.event_partition,
    outbox_event.occurred_at,
    outbox_event.headers,
    outbox_event.context,
    outbox_event.payload,
    outbox_event.payload_bytes,
    outbox_event.handlers,
    outbox_event.status,
    outbox_event.attempts,
    outbox_event.starts,
    outbox_event.created_at,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - outbox_event.due_at AS due_for,
    iif(outbox_event.due_at > outbox_event.created_at, outbox_event.due_at - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000, 0) AS ready_in
FROM json_each(?1) AS visited
CROSS JOIN outbox_event NOT INDEXED
WHERE outbox_event.seq IN (
    SELECT fresh.seq
    FROM outbox_event AS fresh INDEXED BY outbox_event_fresh
    WHERE fresh.status NOT IN (1, 2, 3)
        AND fresh.event_partition = visited.value ->> 0
        AND fresh.seq > visited.value ->> 1
        AND fresh.seq NOT IN (SELECT value FROM json_each(?2))
    ORDER BY fresh.seq
    LIMIT ?3
)
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_event AS unplaced INDEXED BY outbox_event_unplaced
        WHERE coalesce(unplaced.event_partition, -1) NOT BETWEEN 0 AND 255
            AND unplaced.status <> 1
    )
UNION ALL
SELECT
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL
WHERE EXISTS (
    SELECT 1
    FROM outbox_event AS unplaced INDEXED BY outbox_event_unplaced
    WHERE coalesce(unplaced.event_partition, -1) NOT BETWEEN 0 AND 255
        AND unplaced.status <> 1
);
