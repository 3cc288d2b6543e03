UPDATE outbox_event NOT INDEXED
SET starts = ?3 + 1
WHERE seq = ?1
    AND status NOT IN (1, 3)
    AND max(starts, 0) IN (?3, ?3 + 1)
    AND ?2 IN (
        token,
        (
            SELECT ~((lease.epoch << 8) | lease.event_partition)
            FROM outbox_partition AS lease
            WHERE lease.event_partition = outbox_event.event_partition
        )
    );
