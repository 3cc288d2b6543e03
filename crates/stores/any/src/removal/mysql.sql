SELECT
    'DROP TABLE ' AS removal,
    CAST(table_name AS CHAR) AS name,
    '' AS arguments
FROM information_schema.tables
WHERE table_type = 'BASE TABLE'
    AND LOCATE(?, table_name) = 1
    AND table_schema = ?
ORDER BY table_name;
