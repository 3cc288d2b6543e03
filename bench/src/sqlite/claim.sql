UPDATE outbox_event NOT INDEXED
SET
    available_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?1,
    locked_by = ?2,
    locked_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
    token = ?3,
    starts = starts + 1
WHERE seq IN (
    SELECT seq
    FROM outbox_event INDEXED BY outbox_event_pending
    WHERE status NOT IN (1, 3)
        AND available_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
    ORDER BY available_at, seq
    LIMIT ?4
)
RETURNING seq, event_id, event_type, aggregate_type, aggregate_id, event_key, headers, attempts, payload;
