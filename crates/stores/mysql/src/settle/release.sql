UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]',
    starts INT PATH '$[2]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[3]'
)) AS settled
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.starts = settled.starts,
    held.handlers = COALESCE(settled.handlers, held.handlers),
    held.available_at = held.due_at,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE held.token = settled.token
    AND held.status IN (0, 2)
