UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    event_partition INT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    floor BIGINT PATH '$[2]',
    crashes INT PATH '$[3]',
    suspect_to BIGINT PATH '$[4]'
)) AS given
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = given.event_partition
SET
    lease.owner = ?,
    lease.incarnation = ?,
    lease.epoch = given.epoch,
    lease.until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND,
    lease.floor = given.floor,
    lease.crashes = given.crashes,
    lease.suspect_to = given.suspect_to
