UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    event_partition INT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    floor BIGINT PATH '$[2]'
)) AS told
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = told.event_partition
SET
    lease.owner = NULL,
    lease.incarnation = NULL,
    lease.until = NULL,
    lease.floor = GREATEST(lease.floor, told.floor)
WHERE lease.owner = ?
    AND lease.incarnation = ?
    AND lease.epoch = told.epoch
