WITH clock (now) AS MATERIALIZED (
    SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
)
SELECT
    clock.now,
    EXISTS (
        SELECT 1
        FROM json_each(?1) AS visited
        CROSS JOIN outbox_event AS aside INDEXED BY outbox_event_aside
        WHERE aside.status = 2
            AND aside.event_partition = visited.value
            AND aside.available_at <= clock.now
    ) AS is_due,
    (
        SELECT min(
            (
                SELECT aside.available_at
                FROM outbox_event AS aside INDEXED BY outbox_event_aside
                WHERE aside.status = 2
                    AND aside.event_partition = visited.value
                    AND aside.available_at > clock.now
                    AND aside.available_at < 9223372036854775807
                ORDER BY aside.available_at
                LIMIT 1
            )
        )
        FROM json_each(?1) AS visited
    ) - clock.now AS later_in
FROM clock;
