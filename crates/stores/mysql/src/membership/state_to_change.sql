SELECT name, value
FROM outbox_meta FORCE INDEX (PRIMARY)
WHERE name IN ('mode', CONCAT('instance/', ?))
ORDER BY name
FOR UPDATE
