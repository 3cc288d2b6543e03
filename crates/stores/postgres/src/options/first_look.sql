SELECT
    pg_is_in_recovery() AS is_standby,
    current_setting('transaction_read_only') = 'on' AS is_read_only,
    current_setting('server_encoding') AS encoding,
    current_setting('server_version_num')::integer AS version;
