SELECT CASE WHEN octet_length(name) < 64 THEN name ELSE 'pillarbox:' || md5(name) END
FROM (
    SELECT 'pillarbox:' || nspname || '.' || relname AS name
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid = to_regclass('outbox_event')
) AS channel;
