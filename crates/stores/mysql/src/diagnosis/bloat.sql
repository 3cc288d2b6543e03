SELECT
    CAST(data_length + index_length AS SIGNED) AS size,
    CAST(data_free AS SIGNED) AS free
FROM information_schema.tables
WHERE table_schema = COALESCE(?, DATABASE())
    AND table_name = ?
