UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]',
    attempts INT PATH '$[2]',
    is_spent INT PATH '$[3]',
    starts INT PATH '$[4]',
    retry_in BIGINT PATH '$[5]',
    error TEXT CHARACTER SET utf8mb4 PATH '$[6]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]'
)) AS settled
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 2,
    held.attempts = IF(settled.is_spent, settled.attempts + 1, held.attempts),
    held.starts = settled.starts,
    held.due_at = UTC_TIMESTAMP(6) + INTERVAL settled.retry_in MICROSECOND,
    held.available_at = UTC_TIMESTAMP(6) + INTERVAL settled.retry_in MICROSECOND,
    held.last_error = COALESCE(settled.error, held.last_error),
    held.reason = NULL,
    held.handlers = COALESCE(settled.handlers, held.handlers),
    held.stands_apart = NULL,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE held.token = settled.token
    AND (held.attempts = settled.attempts OR NOT settled.is_spent)
    AND held.status IN (0, 2)
