-- From key to key: one costs the same, however many events wait for it.
WITH RECURSIVE held (event_partition, event_key) AS (
    SELECT
        visited.value,
        (
            SELECT first.event_key
            FROM outbox_event AS first INDEXED BY outbox_event_held
            WHERE first.status = 2
                AND first.event_key IS NOT NULL
                AND coalesce(first.reason, '') NOT IN ('delayed', 'replayed')
                AND first.event_partition = visited.value
            ORDER BY first.event_key
            LIMIT 1
        )
    FROM json_each(?1) AS visited
    UNION ALL
    SELECT
        held.event_partition,
        (
            SELECT next.event_key
            FROM outbox_event AS next INDEXED BY outbox_event_held
            WHERE next.status = 2
                AND next.event_key IS NOT NULL
                AND coalesce(next.reason, '') NOT IN ('delayed', 'replayed')
                AND next.event_partition = held.event_partition
                AND next.event_key > held.event_key
            ORDER BY next.event_key
            LIMIT 1
        )
    FROM held
    WHERE held.event_key IS NOT NULL
)
SELECT
    held.event_partition,
    held.event_key,
    head.seq AS first,
    iif(head.available_at = 9223372036854775807, 0, head.available_at - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000) AS ready_in,
    parked.event_id AS parked_for
FROM held
CROSS JOIN outbox_event AS head NOT INDEXED
LEFT JOIN outbox_parked AS parked
    ON parked.event_key = held.event_key
    AND parked.event_partition = held.event_partition
WHERE head.seq = (
    SELECT lowest.seq
    FROM outbox_event AS lowest INDEXED BY outbox_event_held
    WHERE lowest.status = 2
        AND lowest.event_key IS NOT NULL
        AND coalesce(lowest.reason, '') NOT IN ('delayed', 'replayed')
        AND lowest.event_partition = held.event_partition
        AND lowest.event_key = held.event_key
    ORDER BY lowest.seq
    LIMIT 1
)
UNION ALL
SELECT
    parked.event_partition,
    parked.event_key,
    NULL,
    0,
    parked.event_id
FROM json_each(?1) AS visited
CROSS JOIN outbox_parked AS parked INDEXED BY outbox_parked_partition ON parked.event_partition = visited.value
WHERE NOT EXISTS (
    SELECT 1
    FROM outbox_event AS follower INDEXED BY outbox_event_held
    WHERE follower.status = 2
        AND follower.event_key IS NOT NULL
        AND coalesce(follower.reason, '') NOT IN ('delayed', 'replayed')
        AND follower.event_partition = parked.event_partition
        AND follower.event_key = parked.event_key
);
