UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]'
)) AS settled
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = settled.seq
SET
    held.status = 1,
    held.done_at = UTC_TIMESTAMP(6),
    held.reason = NULL,
    held.handlers = NULL,
    held.locked_by = NULL,
    held.locked_at = NULL,
    held.token = NULL
WHERE held.token = settled.token
    AND held.status IN (0, 2)
