SELECT count
FROM information_schema.INNODB_METRICS
WHERE name = 'trx_rw_commits'
