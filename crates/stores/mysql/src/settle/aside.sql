UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]',
    starts INT PATH '$[2]',
    look_in BIGINT PATH '$[3]',
    reason TEXT CHARACTER SET utf8mb4 PATH '$[4]',
    stands_apart INT PATH '$[5]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
)) AS settled
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 2,
    held.starts = settled.starts,
    held.available_at = UTC_TIMESTAMP(6) + INTERVAL settled.look_in MICROSECOND,
    held.reason = settled.reason,
    held.handlers = COALESCE(settled.handlers, held.handlers),
    held.stands_apart = settled.stands_apart,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE held.token = settled.token
    AND held.status IN (0, 2)
