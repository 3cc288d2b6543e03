SELECT value
FROM outbox_meta
WHERE name = 'schema_version'
