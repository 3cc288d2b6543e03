-- Of sessions of other roles only the pid is shown, unless ours may read all statistics; locks are shown to everybody.
SELECT
    activity.pid,
    coalesce(activity.usename::text, '?') AS role,
    coalesce(activity.application_name, '') AS program,
    coalesce(activity.state, '') AS state,
    (extract(epoch FROM clock_timestamp() - activity.xact_start) * 1000000)::bigint AS age,
    activity.xact_start IS NULL AS is_hidden,
    EXISTS (
        SELECT
        FROM pg_locks AS held
        WHERE held.pid = activity.pid
            AND held.locktype = 'relation'
            AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND held.relation = to_regclass('outbox_event')
            AND held.mode = 'RowExclusiveLock'
            AND held.granted
    ) AS has_written
FROM pg_stat_activity AS activity
WHERE activity.datname = current_database()
    AND activity.pid <> pg_backend_pid()
    AND coalesce(activity.backend_type, '') <> 'autovacuum worker'
    AND (activity.xact_start IS NOT NULL OR activity.query = '<insufficient privilege>')
ORDER BY activity.xact_start
LIMIT 100;
