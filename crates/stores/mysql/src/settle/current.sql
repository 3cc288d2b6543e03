SELECT NOT EXISTS (
    SELECT 1
    FROM outbox_instance
    WHERE owner = ?
        AND IF(
            incarnation = ?,
            until = TIMESTAMP '1970-01-01 00:00:00',
            until > UTC_TIMESTAMP(6) AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
        )
)
