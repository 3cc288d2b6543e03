UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    event_partition INT PATH '$[1]',
    epoch BIGINT PATH '$[2]',
    event_id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[3]',
    attempts INT PATH '$[4]',
    is_spent INT PATH '$[5]',
    starts INT PATH '$[6]',
    error TEXT CHARACTER SET utf8mb4 PATH '$[7]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]',
    handlers_before LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]'
)) AS settled
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = settled.event_partition
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 3,
    held.attempts = IF(settled.is_spent, settled.attempts + 1, held.attempts),
    held.starts = settled.starts,
    held.last_error = COALESCE(settled.error, held.last_error),
    held.reason = NULL,
    held.handlers = COALESCE(settled.handlers, held.handlers),
    held.stands_apart = NULL,
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
    AND (held.attempts = settled.attempts OR NOT settled.is_spent)
