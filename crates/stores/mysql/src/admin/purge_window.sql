SELECT
    COUNT(*) AS examined,
    MAX(seq) AS last,
    MIN(created_at) <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND AS is_old,
    COUNT(
        IF(
            (status = 1 AND done_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
                OR (
                    ?
                    AND status = 3
                    AND created_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
                    AND NOT EXISTS (SELECT 1 FROM outbox_parked AS parked WHERE parked.event_id = looked_at.event_id)
                ),
            1,
            NULL
        )
    ) AS deletable
FROM (
    SELECT seq, event_id, status, created_at, done_at
    FROM outbox_event FORCE INDEX (PRIMARY)
    WHERE seq > ?
    ORDER BY seq
    LIMIT ?
) AS looked_at
