SELECT
    (
        SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MIN(created_at)) + ?
        FROM outbox_event FORCE INDEX (outbox_event_pending)
        WHERE is_pending = 1
            AND available_at <= UTC_TIMESTAMP(6)
            AND (
                created_at > UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
                OR available_at > UTC_TIMESTAMP(6) - INTERVAL 1 SECOND
            )
    ) AS skipped_in,
    (
        SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MIN(available_at))
        FROM outbox_event FORCE INDEX (outbox_event_pending)
        WHERE is_pending = 1
            AND available_at > UTC_TIMESTAMP(6)
    ) AS later_in
