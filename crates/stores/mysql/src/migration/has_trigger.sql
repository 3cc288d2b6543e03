SELECT COUNT(*)
FROM information_schema.triggers
WHERE trigger_schema = COALESCE(?, DATABASE())
    AND trigger_name = ?
