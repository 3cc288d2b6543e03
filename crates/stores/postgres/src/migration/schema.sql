SELECT
    EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS is_there,
    has_database_privilege(current_database(), 'CREATE') AS may_be_created;
