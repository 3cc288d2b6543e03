UPDATE outbox_partition
SET
    until = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?3,
    crashes = CASE
        WHEN crashes = 0 OR floor < suspect_to THEN crashes
        WHEN EXISTS (
            SELECT 1
            FROM outbox_event INDEXED BY outbox_event_aside
            WHERE outbox_event.status = 2
                AND outbox_event.event_partition = outbox_partition.event_partition
                AND outbox_event.seq <= outbox_partition.suspect_to
        ) THEN crashes
        ELSE 0
    END
WHERE owner_name = ?1
    AND owner_incarnation = ?2
RETURNING event_partition, epoch, floor, crashes, suspect_to;
