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
    outbox_event.available_at - ?4 AS ready_in
FROM outbox_event NOT INDEXED
WHERE outbox_event.seq IN (
    SELECT due.seq
    FROM json_each(?1) AS visited
    CROSS JOIN outbox_event AS due NOT INDEXED
    WHERE due.seq IN (
        SELECT aside.seq
        FROM outbox_event AS aside INDEXED BY outbox_event_aside
        WHERE aside.status = 2
            AND aside.event_partition = visited.value
            AND aside.available_at <= ?4
            AND aside.seq NOT IN (SELECT value FROM json_each(?2))
        ORDER BY aside.available_at, aside.seq
        LIMIT ?3
    )
    ORDER BY due.available_at, due.seq
    LIMIT ?3
)
ORDER BY outbox_event.available_at, outbox_event.seq;
