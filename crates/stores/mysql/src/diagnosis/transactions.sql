SELECT
    CAST(trx.trx_mysql_thread_id AS SIGNED) AS session,
    CAST(COALESCE(process.user, '?') AS CHAR) AS user,
    CAST(COALESCE(process.command, trx.trx_state) AS CHAR) AS state,
    TIMESTAMPDIFF(MICROSECOND, trx.trx_started, NOW(6)) AS age,
    trx.trx_rows_modified > 0 AND COALESCE(process.db = COALESCE(?, DATABASE()), TRUE) AS has_written
FROM information_schema.innodb_trx AS trx
LEFT JOIN information_schema.processlist AS process ON process.id = trx.trx_mysql_thread_id
WHERE trx.trx_mysql_thread_id <> CONNECTION_ID()
ORDER BY trx.trx_started
LIMIT 100
