DELETE FROM outbox_instance
WHERE until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    OR until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
    OR (?3 AND name = ?1 AND incarnation <> ?2);
