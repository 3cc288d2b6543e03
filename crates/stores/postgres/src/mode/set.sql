INSERT INTO outbox_meta (name, value)
VALUES ('mode', $1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
