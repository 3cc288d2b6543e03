SELECT
    pending.seq,
    pending.event_id,
    pending.event_type,
    pending.aggregate_type,
    pending.aggregate_id,
    pending.tenant_id,
    pending.event_key,
    pending.event_partition,
    pending.occurred_at,
    pending.headers,
    pending.context,
    pending.payload,
    pending.payload_bytes,
    pending.handlers,
    pending.attempts,
    found.starts,
    pending.created_at,
    TIMESTAMPDIFF(MICROSECOND, pending.due_at, UTC_TIMESTAMP(6)) AS due_for,
    IF(
        pending.due_at > pending.created_at,
        TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), pending.due_at),
        0
    ) AS ready_in
FROM (
    SELECT seq, starts
    FROM outbox_event FORCE INDEX (outbox_event_fresh)
    WHERE status = ?
        AND event_partition <=> ?
        AND seq > ?
    ORDER BY seq
    LIMIT ?
) AS found
STRAIGHT_JOIN outbox_event AS pending FORCE INDEX (PRIMARY) ON pending.seq = found.seq
WHERE found.seq NOT IN (SELECT seq FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS in_flight)
