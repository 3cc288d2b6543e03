-- What waits for nothing but its key goes on waiting for it.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    handlers LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]'
)) AS revised
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = revised.seq
SET
    event.handlers = revised.handlers,
    event.available_at = IF(
        event.status = 3 OR event.available_at = TIMESTAMP '9999-12-31 23:59:59.999999',
        event.available_at,
        event.due_at
    ),
    event.reason = IF(event.reason LIKE 'hold: %', NULL, event.reason),
    event.locked_by = NULL,
    event.locked_at = NULL,
    event.token = NULL
WHERE event.status IN (0, 2, 3)
