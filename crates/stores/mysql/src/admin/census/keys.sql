-- Keys that are held by what was set aside, those that are parked, and those of them that nothing was set aside behind.
SELECT
    (
        SELECT COUNT(*)
        FROM (
            SELECT aside_in, aside_key
            FROM outbox_event FORCE INDEX (outbox_event_key)
            WHERE aside_in >= 0
                AND aside_key IS NOT NULL
            GROUP BY aside_in, aside_key
        ) AS held
    ) AS held,
    (SELECT COUNT(*) FROM outbox_parked FORCE INDEX (outbox_parked_partition)) AS parked,
    (
        SELECT COUNT(*)
        FROM outbox_parked AS parked FORCE INDEX (outbox_parked_partition)
        WHERE NOT EXISTS (
            SELECT 1
            FROM outbox_event FORCE INDEX (outbox_event_key)
            WHERE outbox_event.aside_in = parked.event_partition
                AND outbox_event.aside_key = parked.event_key
        )
    ) AS parked_alone
