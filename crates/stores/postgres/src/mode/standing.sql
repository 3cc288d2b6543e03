SELECT
    coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode,
    (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('outbox_event')) AS may_change,
    seqincrement AS increment,
    seqcache AS cache
FROM pg_sequence
WHERE seqrelid = to_regclass('outbox_event_seq_seq');
