SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION
    /*M! max_statement_time = :statement_seconds, */
    /*!80017 max_execution_time = :statement_millis, information_schema_stats_expiry = 0, */
    wait_timeout = 30,
    innodb_lock_wait_timeout = :lock_seconds,
    lock_wait_timeout = :lock_seconds,
    time_zone = '+00:00',
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
    autocommit = 1,
    completion_type = NO_CHAIN
