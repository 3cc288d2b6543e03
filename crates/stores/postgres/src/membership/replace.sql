UPDATE outbox_instance
SET
    seen_at = statement_timestamp(),
    until = '-infinity'
WHERE name = $1
    AND incarnation <> $2
    AND until > '-infinity';
