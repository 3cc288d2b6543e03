UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    event_partition INT PATH '$[1]',
    epoch BIGINT PATH '$[2]',
    event_id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[3]',
    starts INT PATH '$[4]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]',
    handlers_before LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
)) AS settled
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = settled.event_partition
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.starts = settled.starts,
    held.handlers = COALESCE(settled.handlers, held.handlers),
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
