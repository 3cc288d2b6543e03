SELECT CAST(auto_increment AS SIGNED) - 1
FROM information_schema.tables
WHERE table_schema = COALESCE(?, DATABASE())
    AND table_name = ?
