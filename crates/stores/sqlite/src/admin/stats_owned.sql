SELECT
    count(*) AS pending,
    count(*) FILTER (WHERE status = 2) AS retry,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - min(due_at) AS oldest_due_for,
    (SELECT count(*) FROM outbox_event INDEXED BY outbox_event_dead WHERE status = 3) AS dead,
    (SELECT max(seq) FROM outbox_event) AS last,
    (SELECT min(seq) FROM outbox_event) AS first
FROM (
    SELECT status, due_at
    FROM outbox_event INDEXED BY outbox_event_fresh
    WHERE status NOT IN (1, 2, 3)
    UNION ALL
    SELECT status, due_at
    FROM outbox_event INDEXED BY outbox_event_aside
    WHERE status = 2
);
