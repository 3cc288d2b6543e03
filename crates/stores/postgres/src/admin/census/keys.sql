-- Keys that are held by what was set aside, those that are parked, and those of them that nothing was set aside behind.
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT DISTINCT event_partition, event_key
            FROM outbox_event
            WHERE aside_at IS NOT NULL
                AND event_key IS NOT NULL
                AND coalesce(reason, '') NOT IN ('delayed', 'replayed')
        ) AS held
    ) AS held,
    (SELECT count(*) FROM outbox_parked) AS parked,
    (
        SELECT count(*)
        FROM outbox_parked AS parked
        WHERE NOT EXISTS (
            SELECT
            FROM outbox_event
            WHERE aside_at IS NOT NULL
                AND event_key IS NOT NULL
                AND coalesce(reason, '') NOT IN ('delayed', 'replayed')
                AND event_partition = parked.event_partition
                AND event_key = parked.event_key
        )
    ) AS parked_alone;
