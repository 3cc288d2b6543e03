DELETE FROM outbox_meta
WHERE name = CONCAT('paused:', ?)
