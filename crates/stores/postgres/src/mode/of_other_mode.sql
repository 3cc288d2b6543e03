SELECT name
FROM outbox_instance
WHERE mode <> $1
    AND until > statement_timestamp()
    AND until <= statement_timestamp() + interval '1 hour'
    AND NOT coalesce(name = $2 AND incarnation <> $3, FALSE)
ORDER BY name, incarnation;
