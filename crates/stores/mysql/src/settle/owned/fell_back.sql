UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    event_partition INT PATH '$[1]',
    epoch BIGINT PATH '$[2]',
    event_id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[3]',
    attempts INT PATH '$[4]',
    error TEXT CHARACTER SET utf8mb4 PATH '$[5]'
)) AS settled
STRAIGHT_JOIN outbox_partition AS lease FORCE INDEX (PRIMARY) ON lease.event_partition = settled.event_partition
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 1,
    held.attempts = IF(held.attempts = settled.attempts, settled.attempts + 1, held.attempts),
    held.done_at = UTC_TIMESTAMP(6),
    held.last_error = COALESCE(settled.error, held.last_error),
    held.reason = NULL,
    held.handlers = NULL,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE lease.epoch = settled.epoch
    AND held.event_id = settled.event_id
    AND held.event_partition = settled.event_partition
    AND held.status IN (0, 2)
