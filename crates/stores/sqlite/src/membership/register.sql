INSERT INTO outbox_instance (name, incarnation, mode, joined_at, seen_at, until)
VALUES (
    ?1,
    ?2,
    ?3,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?4
)
ON CONFLICT (name, incarnation) DO UPDATE
SET
    mode = excluded.mode,
    seen_at = excluded.seen_at,
    until = excluded.until;
