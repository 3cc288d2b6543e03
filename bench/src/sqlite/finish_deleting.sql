DELETE FROM outbox_event NOT INDEXED
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
