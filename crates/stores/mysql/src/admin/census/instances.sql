SELECT
    owner,
    incarnation,
    mode,
    TIMESTAMPDIFF(MICROSECOND, joined_at, UTC_TIMESTAMP(6)) AS joined_ago,
    TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)) AS silent_for,
    until > UTC_TIMESTAMP(6) AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR AS is_alive
FROM outbox_instance
WHERE until > TIMESTAMP '1970-01-01 00:00:00'
