SELECT DISTINCT owner
FROM outbox_instance
WHERE mode <> ?
    AND until > UTC_TIMESTAMP(6)
    AND until <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
    AND NOT owner <=> ?
