SELECT NOT EXISTS (
    SELECT 1
    FROM outbox_instance
    WHERE name = ?1
        AND iif(
            incarnation = ?2,
            until = 0,
            until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
                AND until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
        )
);
