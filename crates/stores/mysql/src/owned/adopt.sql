UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]',
    event_partition INT PATH '$[1]'
)) AS adopted
STRAIGHT_JOIN outbox_event AS pending FORCE INDEX (PRIMARY) ON pending.seq = adopted.seq
SET pending.event_partition = adopted.event_partition
WHERE pending.event_partition IS NULL
