INSERT INTO outbox_meta (name, value)
VALUES (
    'paused:' || ?1,
    CAST(CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 AS TEXT)
)
ON CONFLICT (name) DO NOTHING;
