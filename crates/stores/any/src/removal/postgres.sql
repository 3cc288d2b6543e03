SELECT
    'DROP TABLE ' AS removal,
    class.relname::text AS name,
    '' AS arguments,
    1 AS turn
FROM pg_class AS class
WHERE class.relkind = 'r'
    AND starts_with(class.relname, $1)
    AND class.relnamespace = quote_ident(coalesce($2, current_schema()::text))::regnamespace
UNION ALL
SELECT
    'DROP FUNCTION ',
    function.proname::text,
    '()',
    2
FROM pg_proc AS function
WHERE starts_with(function.proname, $1)
    AND function.pronamespace = quote_ident(coalesce($2, current_schema()::text))::regnamespace
ORDER BY turn, name;
