WITH caller AS MATERIALIZED (
    SELECT
        coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode,
        -- Unless it is named, and was replaced or has a younger incarnation beside it.
        NOT (
            $8
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
        pg_postmaster_start_time() AS server_started_at,
        coalesce(pg_postmaster_start_time() = $9, TRUE) AS is_same_server
),
registered AS (
    INSERT INTO outbox_instance AS member (name, incarnation, mode, joined_at, seen_at, until)
    SELECT
        $1,
        $2,
        $4,
        statement_timestamp(),
        statement_timestamp(),
        statement_timestamp() + $3 * interval '1 microsecond'
    FROM caller
    WHERE is_current
        AND caller.mode = $4
    ON CONFLICT (name, incarnation) DO UPDATE
    SET
        mode = excluded.mode,
        joined_at = CASE
            WHEN member.until <= statement_timestamp() THEN excluded.joined_at
            WHEN member.until > statement_timestamp() + interval '1 hour' THEN excluded.joined_at
            ELSE member.joined_at
        END,
        seen_at = excluded.seen_at,
        until = excluded.until
    RETURNING name, incarnation, joined_at, seen_at
),
held AS MATERIALIZED (
    SELECT
        lease.event_partition,
        told.floor
    FROM caller
    CROSS JOIN outbox_partition AS lease
    LEFT JOIN unnest($5::smallint[], $6::bigint[], $7::bigint[]) AS told (event_partition, epoch, floor)
        ON told.event_partition = lease.event_partition
        AND told.epoch = lease.epoch
        -- Another server may have taken back the numbers that floors were found by.
        AND caller.is_same_server
    WHERE caller.is_current
        AND caller.mode = $4
        AND lease.owner_name = $1
        AND lease.owner_incarnation = $2
    ORDER BY lease.event_partition
    FOR NO KEY UPDATE OF lease
),
renewed AS (
    UPDATE outbox_partition AS lease
    SET
        until = statement_timestamp() + $3 * interval '1 microsecond',
        floor = greatest(lease.floor, held.floor),
        crashes = CASE
            WHEN lease.crashes = 0 OR greatest(lease.floor, held.floor) < lease.suspect_to THEN lease.crashes
            WHEN EXISTS (
                SELECT
                FROM outbox_event AS event
                WHERE event.aside_at >= '-infinity'
                    AND event.event_partition = lease.event_partition
                    -- A sum, which no index has: by the primary key all that is done would be looked at.
                    AND event.seq + 0 <= lease.suspect_to
            ) THEN lease.crashes
            ELSE 0
        END
    FROM held
    WHERE lease.event_partition = held.event_partition
    RETURNING lease.event_partition, lease.epoch, lease.floor, lease.crashes, lease.suspect_to
)
SELECT
    caller.mode,
    caller.is_current,
    caller.server_started_at,
    statement_timestamp() AS now,
    answer.*
FROM caller
LEFT JOIN (
    SELECT
        name,
        incarnation,
        joined_at,
        seen_at,
        NULL::smallint AS event_partition,
        NULL::bigint AS epoch,
        NULL::bigint AS floor,
        NULL::integer AS crashes,
        NULL::bigint AS suspect_to
    FROM registered
    UNION ALL
    SELECT name, incarnation, joined_at, seen_at, NULL, NULL, NULL, NULL, NULL
    FROM outbox_instance
    WHERE until > statement_timestamp()
        AND until <= statement_timestamp() + interval '1 hour'
        AND (name <> $1 OR incarnation <> $2)
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, event_partition, epoch, floor, crashes, suspect_to
    FROM renewed
) AS answer ON TRUE;
