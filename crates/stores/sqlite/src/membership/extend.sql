UPDATE outbox_partition
SET until = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?3
WHERE owner_name = ?1
    AND owner_incarnation = ?2
    AND event_partition IN (SELECT value FROM json_each(?4))
RETURNING event_partition, epoch, floor, crashes, suspect_to;
