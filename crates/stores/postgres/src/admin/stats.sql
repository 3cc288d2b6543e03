SELECT
    count(*) AS pending,
    count(*) FILTER (WHERE status = 2) AS retry,
    statement_timestamp() AS now,
    min(due_at) AS oldest_due_at,
    (SELECT count(*) FROM outbox_event WHERE status = 3) AS dead,
    (SELECT min(seq) FROM outbox_event) AS first,
    (SELECT max(seq) FROM outbox_event) AS last
FROM outbox_event
WHERE status IN (0, 2);
