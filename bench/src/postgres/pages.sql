SELECT
    (touched.idx_blks_read + touched.idx_blks_hit)::bigint,
    used.idx_scan
FROM pg_statio_user_indexes AS touched
JOIN pg_stat_user_indexes AS used ON used.indexrelid = touched.indexrelid
WHERE used.indexrelname = 'outbox_event_numbers';
