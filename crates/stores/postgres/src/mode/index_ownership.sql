CREATE INDEX IF NOT EXISTS outbox_event_fresh ON outbox_event (event_partition, seq) WHERE status = 0;

CREATE INDEX IF NOT EXISTS outbox_event_aside ON outbox_event (event_partition, available_at, seq) WHERE status = 2;

-- What holds its key or waits for it.
CREATE INDEX IF NOT EXISTS outbox_event_held ON outbox_event (event_partition, event_key, seq)
WHERE status = 2
    AND event_key IS NOT NULL
    AND coalesce(reason, '') NOT IN ('delayed', 'replayed');

-- Empty, but for rows that were written past the triggers.
CREATE INDEX IF NOT EXISTS outbox_event_unplaced ON outbox_event (seq)
WHERE event_partition IS NULL
    AND status IN (0, 2);
