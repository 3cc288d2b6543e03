DELETE FROM outbox_instance
WHERE until <= statement_timestamp()
    OR until > statement_timestamp() + interval '1 hour'
    OR ($3 AND name = $1 AND incarnation <> $2);
