-- Nobody writes now, so nothing can appear below what is fresh, and each floor lies there: from 0 on, every done row would
-- be read once.
WITH first AS MATERIALIZED (
    SELECT event_partition, min(seq) AS seq
    FROM outbox_event
    WHERE status = 0
    GROUP BY event_partition
)
UPDATE outbox_partition AS lease
SET floor = coalesce(
    (SELECT seq - 1 FROM first WHERE first.event_partition = lease.event_partition),
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_event_seq_seq)
);
