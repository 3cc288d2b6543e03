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
    pending.starts,
    pending.created_at,
    TIMESTAMPDIFF(MICROSECOND, pending.due_at, UTC_TIMESTAMP(6)) AS due_for,
    IF(
        pending.available_at = TIMESTAMP '9999-12-31 23:59:59.999999',
        0,
        TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), pending.available_at)
    ) AS ready_in
FROM (
    SELECT seq
    FROM outbox_event FORCE INDEX (outbox_event_key)
    WHERE aside_in = ?
        AND aside_key = ?
    ORDER BY seq
    LIMIT ?
) AS found
STRAIGHT_JOIN outbox_event AS pending FORCE INDEX (PRIMARY) ON pending.seq = found.seq
WHERE found.seq NOT IN (SELECT seq FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS in_flight)
