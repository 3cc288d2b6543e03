DELETE FROM outbox_parked
