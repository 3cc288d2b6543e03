SELECT name
FROM sqlite_schema
WHERE type = 'index'
    AND tbl_name = 'outbox_event';
