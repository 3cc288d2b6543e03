UPDATE outbox_event NOT INDEXED
SET
    status = 1,
    done_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
WHERE seq IN (SELECT value FROM json_each(?1))
    AND event_partition = ?2
    AND status NOT IN (1, 3)
    AND EXISTS (
        SELECT 1
        FROM outbox_partition
        WHERE event_partition = ?2
            AND owner_name = 'by hand'
            AND epoch = 1
    );
