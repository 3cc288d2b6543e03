SELECT
    slot_name::text AS name,
    coalesce(xmin, catalog_xmin) IS NOT NULL AS keeps_rows,
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS keeps_log
FROM pg_replication_slots
WHERE NOT active
    AND (database IS NULL OR database = current_database())
ORDER BY slot_name;
