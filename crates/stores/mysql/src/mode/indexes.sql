SELECT DISTINCT CAST(index_name AS CHAR) AS index_name
FROM information_schema.statistics
WHERE table_schema = COALESCE(?, DATABASE())
    AND table_name = ?
