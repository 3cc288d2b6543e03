UPDATE outbox_event NOT INDEXED
SET
    available_at = due_at,
    reason = NULL
WHERE seq IN (
    SELECT waiting.seq
    FROM outbox_event AS waiting INDEXED BY outbox_event_pending
    WHERE waiting.status NOT IN (1, 3)
        AND waiting.available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND waiting.available_at < 9223372036854775807
        AND waiting.reason = ?1
        AND waiting.token IS NULL
    ORDER BY waiting.available_at
    LIMIT ?2
);
