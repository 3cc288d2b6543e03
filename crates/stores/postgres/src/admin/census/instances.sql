SELECT
    name,
    incarnation,
    mode,
    transaction_timestamp() AS now,
    joined_at,
    seen_at,
    until > transaction_timestamp()
        AND until <= transaction_timestamp() + interval '1 hour' AS is_alive
FROM outbox_instance
WHERE until > '-infinity';
