UPDATE outbox_event NOT INDEXED
SET starts = ?4 + 1
WHERE seq = ?1
    AND coalesce(?3 = CAST(event_id AS TEXT), TRUE)
    AND status NOT IN (1, 3)
    AND max(starts, 0) IN (?4, ?4 + 1)
    AND ?2 IN (
        token,
        (
            SELECT ~((lease.epoch << 8) | lease.event_partition)
            FROM outbox_partition AS lease
            WHERE lease.event_partition = outbox_event.event_partition
        )
    );
