WITH looked_at AS MATERIALIZED (
    SELECT
        seq,
        created_at,
        (status = 1 AND done_at <= statement_timestamp() - $3 * interval '1 microsecond')
            OR ($4 AND status = 3 AND created_at <= statement_timestamp() - $3 * interval '1 microsecond') AS is_over
    FROM outbox_event
    WHERE seq > $1
    ORDER BY seq
    LIMIT $2
),
deleted AS (
    DELETE FROM outbox_event AS event
    USING looked_at
    WHERE event.seq = looked_at.seq
        AND looked_at.is_over
        AND event.status IN (1, 3)
    RETURNING event.seq
)
SELECT
    count(*) AS examined,
    max(seq) AS last,
    coalesce(min(created_at) <= statement_timestamp() - $3 * interval '1 microsecond', FALSE) AS is_old,
    (SELECT count(*) FROM deleted) AS deleted
FROM looked_at;
