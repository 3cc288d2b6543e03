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
    earliest.available_at,
    TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), earliest.available_at) AS ready_in
FROM (
    SELECT seq, available_at
    FROM (
        SELECT seq, available_at
        FROM outbox_event FORCE INDEX (outbox_event_aside)
        WHERE aside_in = ?
            AND available_at < TIMESTAMP '9999-12-31 23:59:59.999999'
        ORDER BY available_at, seq
        LIMIT ?
    ) AS found
    WHERE seq NOT IN (SELECT seq FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS in_flight)
    ORDER BY available_at, seq
    LIMIT ?
) AS earliest
LEFT JOIN outbox_event AS pending FORCE INDEX (PRIMARY)
    ON pending.seq = earliest.seq
    AND earliest.available_at <= UTC_TIMESTAMP(6)
