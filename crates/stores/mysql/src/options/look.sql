SELECT
    VERSION() AS version,
    @@GLOBAL.read_only OR @@GLOBAL.innodb_read_only AS is_read_only
