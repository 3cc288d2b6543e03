DROP INDEX IF EXISTS
    outbox_event_numbers,
    outbox_event_aside,
    outbox_event_held,
    outbox_event_unplaced;
