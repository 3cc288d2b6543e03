SELECT seq
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq > ?
    AND seq <= ?
    AND (
        (status = 1 AND done_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
        OR (? AND status = 3 AND created_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
    )
ORDER BY seq
