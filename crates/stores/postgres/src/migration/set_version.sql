INSERT INTO outbox_meta (name, value)
VALUES ('schema_version', '0')
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
