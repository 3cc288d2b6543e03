WITH held AS MATERIALIZED (
    SELECT
        lease.event_partition,
        told.floor
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS told (event_partition, epoch, floor)
    JOIN outbox_partition AS lease ON lease.event_partition = told.event_partition
    WHERE lease.epoch = told.epoch
        AND lease.owner_name = $1
        AND lease.owner_incarnation = $2
    ORDER BY lease.event_partition
    FOR UPDATE OF lease
)
UPDATE outbox_partition AS lease
SET
    owner_name = NULL,
    owner_incarnation = NULL,
    until = NULL,
    floor = greatest(lease.floor, held.floor)
FROM held
WHERE lease.event_partition = held.event_partition;
