CREATE INDEX IF NOT EXISTS outbox_event_unplaced ON outbox_event (seq)
WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
    AND status <> 1;
