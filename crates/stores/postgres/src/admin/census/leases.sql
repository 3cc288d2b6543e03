SELECT
    event_partition,
    owner_name,
    owner_incarnation,
    epoch,
    coalesce(
        until > transaction_timestamp()
            AND until <= transaction_timestamp() + interval '1 hour',
        FALSE
    ) AS is_held
FROM outbox_partition
ORDER BY event_partition;
