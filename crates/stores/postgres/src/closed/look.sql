SELECT
    pg_backend_pid() AS session,
    (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())) AS session_began_at,
    EXISTS (
        SELECT
        FROM pg_stat_get_activity($1)
        WHERE backend_start = $2
    ) AS is_same_server,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_event_seq_seq) AS highest,
    coalesce(array_agg(virtualtransaction) FILTER (WHERE pid IS NOT NULL), '{}') AS running,
    coalesce(array_agg(virtualtransaction) FILTER (WHERE pid IS NULL), '{}') AS prepared
FROM pg_locks
WHERE locktype = 'relation'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation = to_regclass('outbox_event')
    AND mode = 'RowExclusiveLock'
    AND granted;
