SELECT seq
FROM sqlite_sequence
WHERE name = 'outbox_event';
