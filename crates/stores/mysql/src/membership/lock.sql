SELECT
    event_partition,
    owner,
    incarnation,
    epoch,
    floor,
    crashes,
    suspect_to,
    owner IS NULL
        OR until <= UTC_TIMESTAMP(6)
        OR until > UTC_TIMESTAMP(6) + INTERVAL 1 HOUR AS is_free
FROM outbox_partition FORCE INDEX (PRIMARY)
WHERE event_partition IN (?)
ORDER BY event_partition
FOR UPDATE
