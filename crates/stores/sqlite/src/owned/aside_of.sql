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
    iif(outbox_event.available_at = 9223372036854775807, 0, outbox_event.available_at - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000) AS ready_in
FROM outbox_event INDEXED BY outbox_event_held
WHERE outbox_event.status = 2
    AND outbox_event.event_key IS NOT NULL
    AND coalesce(outbox_event.reason, '') NOT IN ('delayed', 'replayed')
    AND outbox_event.event_partition = ?1
    AND outbox_event.event_key = ?2
    AND outbox_event.seq NOT IN (SELECT value FROM json_each(?3))
ORDER BY outbox_event.seq
LIMIT ?4;
