SELECT
    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
    (SELECT xact_commit FROM pg_stat_database WHERE datname = $1),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend');
