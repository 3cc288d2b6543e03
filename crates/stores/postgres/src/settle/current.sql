SELECT NOT EXISTS (
    SELECT
    FROM outbox_instance
    WHERE name = $1
        AND CASE
            WHEN incarnation = $2 THEN until = '-infinity'
            ELSE until > statement_timestamp() AND until <= statement_timestamp() + interval '1 hour'
        END
) AS is_current;
