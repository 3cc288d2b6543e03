WITH caller AS MATERIALIZED (
    SELECT
        coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode,
        -- Unless it is named, and was replaced or has a younger incarnation beside it.
        NOT (
            $5
            AND EXISTS (
                SELECT
                FROM outbox_instance
                WHERE name = $1
                    AND CASE
                        WHEN incarnation = $2 THEN until = '-infinity'
                        ELSE until > statement_timestamp() AND until <= statement_timestamp() + interval '1 hour'
                    END
            )
        ) AS is_current,
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_event_seq_seq) AS highest
),
-- A lease that is locked is one that an outcome is just recorded under: it is to be had when that has ended.
free AS MATERIALIZED (
    SELECT
        lease.event_partition,
        caller.highest,
        coalesce(lease.owner_name = $1 AND lease.owner_incarnation = $2, FALSE) AS is_own,
        lease.owner_name IS NOT NULL AS was_owned
    FROM caller
    CROSS JOIN outbox_partition AS lease
    WHERE caller.mode = 'ownership'
        AND caller.is_current
        AND lease.event_partition = ANY ($4::smallint[])
        AND (
            lease.owner_name IS NULL
            OR (lease.owner_name = $1 AND lease.owner_incarnation = $2)
            OR lease.until <= statement_timestamp()
            OR lease.until > statement_timestamp() + interval '1 hour'
        )
    ORDER BY lease.event_partition
    FOR UPDATE OF lease SKIP LOCKED
),
given AS (
    UPDATE outbox_partition AS lease
    SET
        owner_name = $1,
        owner_incarnation = $2,
        epoch = CASE WHEN is_own THEN epoch ELSE epoch + 1 END,
        until = statement_timestamp() + $3 * interval '1 microsecond',
        floor = CASE WHEN is_own OR floor <= highest THEN floor ELSE 0 END,
        crashes = CASE WHEN is_own OR NOT was_owned THEN crashes ELSE crashes + 1 END,
        suspect_to = CASE WHEN is_own OR NOT was_owned THEN suspect_to ELSE highest END
    FROM free
    WHERE lease.event_partition = free.event_partition
    RETURNING lease.event_partition, epoch, floor, crashes, suspect_to
)
SELECT
    caller.mode,
    given.*
FROM caller
LEFT JOIN given ON TRUE;
