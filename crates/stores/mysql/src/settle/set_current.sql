INSERT INTO outbox_meta (name, value)
VALUES (CONCAT('instance/', ?), ?)
ON DUPLICATE KEY UPDATE value = ?
