INSERT INTO outbox_meta (name, value)
VALUES ('schema_version', ?)
ON DUPLICATE KEY UPDATE value = ?
