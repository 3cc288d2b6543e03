SELECT
    seq,
    event_id,
    status = 3 AS is_dead,
    token IS NOT NULL
        AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000 AS is_leased,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - created_at AS written_ago,
    handlers
FROM outbox_event INDEXED BY outbox_event_fresh
WHERE status NOT IN (1, 2, 3)
    AND handlers IS NOT NULL
    AND instr(handlers, ?1) > 0
UNION ALL
SELECT
    seq,
    event_id,
    status = 3 AS is_dead,
    token IS NOT NULL
        AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000 AS is_leased,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - created_at AS written_ago,
    handlers
FROM outbox_event INDEXED BY outbox_event_aside
WHERE status = 2
    AND handlers IS NOT NULL
    AND instr(handlers, ?1) > 0
UNION ALL
SELECT
    seq,
    event_id,
    status = 3 AS is_dead,
    token IS NOT NULL
        AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000 AS is_leased,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - created_at AS written_ago,
    handlers
FROM outbox_event INDEXED BY outbox_event_dead
WHERE status = 3
    AND handlers IS NOT NULL
    AND instr(handlers, ?1) > 0
LIMIT ?2;
