SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode;
