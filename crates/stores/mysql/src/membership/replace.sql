UPDATE outbox_instance
SET
    seen_at = UTC_TIMESTAMP(6),
    until = TIMESTAMP '1970-01-01 00:00:00'
WHERE owner = ?
    AND incarnation <> ?
    AND until > TIMESTAMP '1970-01-01 00:00:00'
