UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    event_partition INT PATH '$[1]',
    epoch BIGINT PATH '$[2]',
    event_id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[3]',
    starts INT PATH '$[4]',
    look_in BIGINT PATH '$[5]',
    reason TEXT CHARACTER SET utf8mb4 PATH '$[6]',
    stands_apart INT PATH '$[7]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]',
    handlers_before LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]'
)) AS settled
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = settled.event_partition
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 2,
    held.starts = settled.starts,
    held.available_at = COALESCE(
        UTC_TIMESTAMP(6) + INTERVAL settled.look_in MICROSECOND,
        TIMESTAMP '9999-12-31 23:59:59.999999'
    ),
    held.reason = settled.reason,
    held.handlers = COALESCE(settled.handlers, held.handlers),
    held.stands_apart = settled.stands_apart,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE lease.epoch = settled.epoch
    AND held.event_id = settled.event_id
    AND held.event_partition = settled.event_partition
    AND held.status IN (0, 2)
    AND (
        settled.handlers IS NULL
        OR held.handlers <=> settled.handlers_before
        OR held.handlers = settled.handlers
    )
    AND (held.event_key IS NOT NULL OR settled.look_in IS NOT NULL)
