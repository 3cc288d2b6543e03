SELECT
    pending.event_partition,
    held.aside_key AS event_key,
    pending.seq AS first,
    IF(
        pending.available_at = TIMESTAMP '9999-12-31 23:59:59.999999',
        0,
        TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), pending.available_at)
    ) AS ready_in,
    NULL AS parked_for
FROM (
    SELECT aside_in, aside_key, MIN(seq) AS seq
    FROM outbox_event FORCE INDEX (outbox_event_key)
    WHERE aside_in IN (?)
        AND aside_key IS NOT NULL
    GROUP BY aside_in, aside_key
) AS held
STRAIGHT_JOIN outbox_event AS pending FORCE INDEX (PRIMARY) ON pending.seq = held.seq
UNION ALL
SELECT event_partition, event_key, NULL, 0, event_id
FROM outbox_parked FORCE INDEX (outbox_parked_partition)
WHERE event_partition IN (?)
