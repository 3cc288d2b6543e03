SELECT
    stat.n_live_tup AS live,
    stat.n_dead_tup AS dead,
    (extract(epoch FROM clock_timestamp() - greatest(stat.last_vacuum, stat.last_autovacuum)) * 1000000)::bigint
        AS vacuumed_ago,
    pg_total_relation_size(stat.relid) AS size,
    EXISTS (
        SELECT
        FROM pg_class AS class
        CROSS JOIN LATERAL pg_options_to_table(class.reloptions) AS option
        WHERE class.oid = stat.relid
            AND option.option_name = 'autovacuum_enabled'
            AND NOT option.option_value::boolean
    ) AS is_left_out
FROM pg_stat_user_tables AS stat
WHERE stat.relid = to_regclass('outbox_event');
