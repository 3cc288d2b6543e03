SELECT
    CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED) AS flush_log,
    CAST(@@GLOBAL.log_bin AS SIGNED) AS log_bin,
    CAST(@@GLOBAL.sync_binlog AS SIGNED) AS sync_binlog,
    CAST(@@GLOBAL.innodb_doublewrite AS CHAR) AS doublewrite,
    CAST(@@GLOBAL.max_allowed_packet AS SIGNED) AS packet
