SELECT suspected.event_partition
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    event_partition INT PATH '$[0]',
    suspect_to BIGINT PATH '$[1]'
)) AS suspected
WHERE NOT EXISTS (
    SELECT 1
    FROM outbox_event FORCE INDEX (outbox_event_aside)
    WHERE aside_in = suspected.event_partition
        AND seq <= suspected.suspect_to
)
