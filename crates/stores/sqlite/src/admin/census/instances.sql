SELECT
    name,
    incarnation,
    mode,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - joined_at AS joined_ago,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - seen_at AS silent_for,
    until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
        AND until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000 AS is_alive
FROM outbox_instance
WHERE until > 0;
