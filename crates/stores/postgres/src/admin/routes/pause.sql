INSERT INTO outbox_meta (name, value)
VALUES (
    'paused:' || $1::text,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text
)
ON CONFLICT (name) DO NOTHING;
