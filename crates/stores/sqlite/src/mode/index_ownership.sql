DROP INDEX IF EXISTS outbox_event_pending;

-- Every index of SQLite ends with the number of the row: these are ordered by it within a partition, a time, a key. A
-- status that does not exist is fresh: it must come to light.
CREATE INDEX IF NOT EXISTS outbox_event_fresh ON outbox_event (event_partition) WHERE status NOT IN (1, 2, 3);

CREATE INDEX IF NOT EXISTS outbox_event_aside ON outbox_event (event_partition, available_at) WHERE status = 2;

-- What holds its key or waits for it.
CREATE INDEX IF NOT EXISTS outbox_event_held ON outbox_event (event_partition, event_key)
WHERE status = 2
    AND event_key IS NOT NULL
    AND coalesce(reason, '') NOT IN ('delayed', 'replayed');
