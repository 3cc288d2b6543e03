INSERT INTO outbox_instance (name, incarnation, mode, joined_at, seen_at, until)
VALUES (
    $1,
    $2,
    $4,
    statement_timestamp(),
    statement_timestamp(),
    statement_timestamp() + $3 * interval '1 microsecond'
)
ON CONFLICT (name, incarnation) DO UPDATE
SET
    mode = excluded.mode,
    seen_at = excluded.seen_at,
    until = excluded.until;
