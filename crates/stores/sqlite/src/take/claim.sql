UPDATE outbox_event NOT INDEXED
SET
    available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?1,
    locked_by = ?2,
    locked_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    token = ?3,
    starts = min(max(starts, 0), 2147483647) + 1
WHERE seq IN (SELECT value FROM json_each(?4));
