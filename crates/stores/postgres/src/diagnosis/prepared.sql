SELECT
    gid,
    owner::text AS role,
    (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint AS age
FROM pg_prepared_xacts
WHERE database = current_database()
ORDER BY prepared;
