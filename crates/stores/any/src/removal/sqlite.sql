SELECT
    'DROP TABLE ' AS removal,
    name,
    '' AS arguments
FROM sqlite_schema
WHERE type = 'table'
    AND instr(name, ?1) = 1
    AND ?2 IS NULL
ORDER BY name;
