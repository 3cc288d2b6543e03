DELETE FROM outbox_event NOT INDEXED
WHERE seq > ?1
    AND seq <= ?2
    AND (
        (status = 1 AND done_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3)
        OR (
            ?4
            AND status = 3
            AND created_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?3
            AND NOT EXISTS (
                SELECT 1
                FROM outbox_parked AS parked
                WHERE parked.event_key = outbox_event.event_key
                    AND parked.event_id = outbox_event.event_id
            )
        )
    );
