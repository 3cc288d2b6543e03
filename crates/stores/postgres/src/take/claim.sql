WITH outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
),
seen AS MATERIALIZED (
    SELECT
        ARRAY(SELECT running::xid FROM pg_snapshot_xip(pg_current_snapshot()) AS running) AS running,
        age(pg_snapshot_xmax(pg_current_snapshot())::xid) AS age_of_next,
        age(pg_snapshot_xmax(pg_current_snapshot())::xid) - 65536 AS age_of_last
),
due AS MATERIALIZED (
    SELECT seq, available_at
    FROM outbox_event AS event
    WHERE (SELECT mode FROM outbox) = 'claims'
        AND status IN (0, 2)
        AND available_at >= $6
        AND available_at <= statement_timestamp()
        AND ($5 = 0 OR created_at <= statement_timestamp() - $5 * interval '1 microsecond')
        AND (
            event.xmax = 0
            OR $7
            OR NOT (
                event.xmax = ANY ((SELECT running FROM seen)::xid[])
                OR age(event.xmax) BETWEEN (SELECT age_of_last FROM seen) AND (SELECT age_of_next FROM seen)
            )
        )
    ORDER BY available_at, seq
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE outbox_event AS event
    SET
        available_at = statement_timestamp() + $2 * interval '1 microsecond',
        locked_by = $3,
        locked_at = statement_timestamp(),
        token = $4,
        starts = event.starts + 1
    FROM due
    WHERE event.seq = due.seq
    RETURNING
        event.seq,
        event.event_id,
        event.event_type,
        event.aggregate_type,
        event.aggregate_id,
        event.tenant_id,
        event.event_key,
        event.occurred_at,
        event.headers,
        event.context,
        event.payload,
        event.payload_bytes,
        event.handlers,
        event.attempts,
        event.starts - 1 AS starts,
        event.created_at,
        event.due_at,
        due.available_at AS was_available_at
)
SELECT
    claimed.*,
    outbox.mode,
    CASE
        WHEN outbox.mode = 'claims' AND (SELECT count(*) FROM claimed) < $1 THEN least(
            (
                SELECT min(created_at) + $5 * interval '1 microsecond'
                FROM outbox_event
                WHERE $5 > 0
                    AND status IN (0, 2)
                    AND available_at <= statement_timestamp()
                    AND created_at > statement_timestamp() - $5 * interval '1 microsecond'
            ),
            (
                SELECT available_at
                FROM outbox_event
                WHERE status IN (0, 2)
                    AND available_at > statement_timestamp()
                ORDER BY available_at
                LIMIT 1
            )
        )
    END AS next_due_at,
    statement_timestamp() AS now,
    clock_timestamp() AS ended_at
FROM outbox
LEFT JOIN claimed ON TRUE;
