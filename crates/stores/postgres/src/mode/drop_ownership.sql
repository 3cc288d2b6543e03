DROP INDEX IF EXISTS
    outbox_event_fresh,
    outbox_event_aside,
    outbox_event_held,
    outbox_event_unplaced;
