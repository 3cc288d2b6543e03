SELECT sql
FROM sqlite_schema
WHERE type = 'table'
    AND name = 'outbox_event';
