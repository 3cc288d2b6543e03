SELECT
    owner,
    incarnation,
    TIMESTAMPDIFF(MICROSECOND, joined_at, UTC_TIMESTAMP(6)) AS joined_ago,
    TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)) AS silent_for
FROM outbox_instance
WHERE until > UTC_TIMESTAMP(6)
    AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
