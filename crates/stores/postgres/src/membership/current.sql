INSERT INTO outbox_meta (name, value)
VALUES ('instance/' || $1, $1 || '/' || $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
