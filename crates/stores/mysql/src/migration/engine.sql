SELECT engine
FROM information_schema.tables
WHERE table_schema = COALESCE(?, DATABASE())
    AND table_name = ?
