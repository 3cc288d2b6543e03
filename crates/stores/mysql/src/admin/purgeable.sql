SELECT seq
FROM outbox_event AS old FORCE INDEX (PRIMARY)
WHERE seq > ?
    AND seq <= ?
    AND (
        (status = 1 AND done_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
        OR (
            ?
            AND status = 3
            AND created_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
            AND NOT EXISTS (SELECT 1 FROM outbox_parked AS parked WHERE parked.event_id = old.event_id)
        )
    )
ORDER BY seq
