SELECT
    class.relname::text AS name,
    index.indisvalid AND index.indisready AS is_valid
FROM pg_index AS index
JOIN pg_class AS class ON class.oid = index.indexrelid
WHERE index.indrelid = to_regclass('outbox_event');
