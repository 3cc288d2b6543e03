-- Of all rows, so that one that becomes done stays where it is; whoever reads begins at a floor.
CREATE INDEX IF NOT EXISTS outbox_event_numbers ON outbox_event (event_partition, seq);

CREATE INDEX IF NOT EXISTS outbox_event_aside ON outbox_event (event_partition, aside_at, seq)
WHERE aside_at IS NOT NULL;

-- What holds its key or waits for it.
CREATE INDEX IF NOT EXISTS outbox_event_held ON outbox_event (event_partition, event_key, seq)
WHERE aside_at IS NOT NULL
    AND event_key IS NOT NULL
    AND coalesce(reason, '') NOT IN ('delayed', 'replayed');

-- Empty, but for rows that were written past the triggers: without a partition, or with a number that is none.
CREATE INDEX IF NOT EXISTS outbox_event_unplaced ON outbox_event (seq)
WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255;
