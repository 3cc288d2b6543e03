SELECT
    seq,
    event_id,
    status,
    COALESCE(
        token IS NOT NULL
        AND available_at > UTC_TIMESTAMP(6)
        AND available_at <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR,
        0
    ) AS is_leased,
    TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) AS written_ago,
    handlers
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
    AND status IN (0, 2, 3)
    AND handlers IS NOT NULL
ORDER BY seq
FOR UPDATE SKIP LOCKED
