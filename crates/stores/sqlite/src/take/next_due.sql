SELECT
    (
        SELECT min(created_at) + ?1
        FROM outbox_event INDEXED BY outbox_event_pending
        WHERE status NOT IN (1, 3)
            AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    ) - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 AS skipped_in,
    (
        SELECT min(available_at)
        FROM outbox_event INDEXED BY outbox_event_pending
        WHERE status NOT IN (1, 3)
            AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    ) - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 AS later_in;
