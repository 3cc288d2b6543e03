WITH left_over AS MATERIALIZED (
    SELECT
        event_partition,
        owner_incarnation = $2 AS is_own,
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_event_seq_seq) AS highest
    FROM outbox_partition
    WHERE owner_name = $1
        AND ($4 OR owner_incarnation = $2)
    ORDER BY event_partition
    FOR UPDATE
)
UPDATE outbox_partition AS lease
SET
    owner_incarnation = $2,
    epoch = CASE WHEN is_own THEN epoch ELSE epoch + 1 END,
    until = statement_timestamp() + $3 * interval '1 microsecond',
    floor = CASE WHEN is_own OR floor <= highest THEN floor ELSE 0 END,
    crashes = CASE WHEN is_own THEN crashes ELSE crashes + 1 END,
    suspect_to = CASE WHEN is_own THEN suspect_to ELSE highest END
FROM left_over
WHERE lease.event_partition = left_over.event_partition
RETURNING lease.event_partition, epoch, floor, crashes, suspect_to;
