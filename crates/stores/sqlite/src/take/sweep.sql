SELECT seq
FROM outbox_event INDEXED BY outbox_event_pending
WHERE status NOT IN (1, 3)
    AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
    AND token IS NOT NULL
ORDER BY available_at, seq
LIMIT ?1;
