UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    token BIGINT PATH '$[1]'
)) AS leased
STRAIGHT_JOIN outbox_event AS held FORCE INDEX (PRIMARY) ON held.seq = leased.seq
SET held.available_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE held.token = leased.token
    AND held.status IN (0, 2)
