SELECT
    (SELECT value FROM outbox_meta WHERE name = 'mode') AS mode,
    (SELECT value FROM outbox_meta WHERE name = 'instance/' || ?1) AS current;
