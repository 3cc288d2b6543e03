WITH looked_at AS MATERIALIZED (
    SELECT
        seq,
        created_at,
        CASE status
            WHEN 1 THEN done_at <= statement_timestamp() - $3 * interval '1 microsecond'
            WHEN 3 THEN $4
                AND created_at <= statement_timestamp() - $3 * interval '1 microsecond'
                AND event_id IS DISTINCT FROM (
                    SELECT parked.event_id
                    FROM outbox_parked AS parked
                    WHERE parked.event_partition = event.event_partition
                        AND parked.event_key = event.event_key
                )
            ELSE FALSE
        END AS is_over
    FROM outbox_event AS event
    WHERE seq > $1
    ORDER BY seq
    LIMIT $2
),
deleted AS (
    DELETE FROM outbox_event
    WHERE seq = ANY (ARRAY(SELECT seq FROM looked_at WHERE is_over))
        AND status IN (1, 3)
    RETURNING seq
)
SELECT
    count(*) AS examined,
    max(seq) AS last,
    coalesce(min(created_at) <= statement_timestamp() - $3 * interval '1 microsecond', FALSE) AS is_old,
    (SELECT count(*) FROM deleted) AS deleted
FROM looked_at;
