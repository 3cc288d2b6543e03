SELECT
    event_partition,
    owner_name,
    owner_incarnation,
    epoch,
    owner_name IS NOT NULL
        AND until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000 AS is_held
FROM outbox_partition
ORDER BY event_partition;
