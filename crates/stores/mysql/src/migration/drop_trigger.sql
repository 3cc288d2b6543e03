DROP TRIGGER IF EXISTS outbox_event_partition
