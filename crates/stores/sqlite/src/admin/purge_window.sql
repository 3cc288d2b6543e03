SELECT
    count(*) AS examined,
    max(seq) AS last,
    min(created_at) <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3 AS is_old,
    count(*) FILTER (
        WHERE (status = 1 AND done_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3)
            OR (?4 AND status = 3 AND created_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3)
    ) AS deletable
FROM (
    SELECT seq, status, created_at, done_at
    FROM outbox_event NOT INDEXED
    WHERE seq > ?1
    ORDER BY seq
    LIMIT ?2
);
