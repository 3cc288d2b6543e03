SELECT
    event_partition,
    owner,
    incarnation,
    epoch,
    COALESCE(until > UTC_TIMESTAMP(6) AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, FALSE) AS is_held
FROM outbox_partition FORCE INDEX (PRIMARY)
ORDER BY event_partition
