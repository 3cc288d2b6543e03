SHOW GLOBAL STATUS
WHERE Variable_name IN ('Innodb_os_log_written', 'Handler_commit')
