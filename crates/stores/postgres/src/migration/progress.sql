SELECT
    pg_blocking_pids(activity.pid) AS waits_for,
    progress.phase,
    progress.blocks_done,
    progress.blocks_total
FROM pg_stat_activity AS activity
LEFT JOIN pg_stat_progress_create_index AS progress ON progress.pid = activity.pid
WHERE activity.pid = $1;
