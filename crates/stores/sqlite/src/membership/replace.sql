UPDATE outbox_instance
SET
    seen_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    until = 0
WHERE name = ?1
    AND incarnation <> ?2
    AND until > 0;
