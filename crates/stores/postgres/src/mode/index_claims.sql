CREATE INDEX IF NOT EXISTS outbox_event_pending ON outbox_event (available_at, seq) WHERE status IN (0, 2);
