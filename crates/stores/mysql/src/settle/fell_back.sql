UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]',
    attempts INT PATH '$[2]',
    error TEXT CHARACTER SET utf8mb4 PATH '$[3]'
)) AS settled
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
WHERE held.token = settled.token
    AND held.status IN (0, 2)
