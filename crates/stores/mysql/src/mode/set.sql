INSERT INTO outbox_meta (name, value)
VALUES ('mode', ?)
ON DUPLICATE KEY UPDATE value = ?
