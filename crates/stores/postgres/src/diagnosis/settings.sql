SELECT
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('autovacuum') AS autovacuum,
    current_setting('track_counts') AS track_counts,
    ARRAY(
        SELECT role.rolname::text
        FROM pg_db_role_setting AS setting
        JOIN pg_roles AS role ON role.oid = setting.setrole
        WHERE setting.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
            AND 'synchronous_commit=off' = ANY (setting.setconfig)
        ORDER BY role.rolname
    ) AS asynchronous_roles;
