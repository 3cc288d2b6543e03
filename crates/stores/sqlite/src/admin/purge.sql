DELETE FROM outbox_event NOT INDEXED
WHERE seq > ?1
    AND seq <= ?2
    AND (
        (status = 1 AND done_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3)
        OR (?4 AND status = 3 AND created_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3)
    );
