DELETE FROM outbox_instance
WHERE name = $1
    AND incarnation = $2;
