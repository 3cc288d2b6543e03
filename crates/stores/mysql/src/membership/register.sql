INSERT INTO outbox_instance (owner, incarnation, mode, joined_at, seen_at, until)
VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE
    joined_at = IF(
        until > UTC_TIMESTAMP(6) AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR,
        joined_at,
        UTC_TIMESTAMP(6)
    ),
    mode = ?,
    seen_at = UTC_TIMESTAMP(6),
    until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
