DROP INDEX IF EXISTS outbox_event_fresh;

DROP INDEX IF EXISTS outbox_event_aside;

DROP INDEX IF EXISTS outbox_event_held;

DROP INDEX IF EXISTS outbox_event_unplaced;

CREATE INDEX IF NOT EXISTS outbox_event_pending ON outbox_event (available_at) WHERE status NOT IN (1, 3);
