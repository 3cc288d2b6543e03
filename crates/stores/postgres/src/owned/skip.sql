-- In every partition, with which the index begins: an event can lie in one that is not the one of its key.
DELETE FROM outbox_parked
WHERE event_partition = ANY (ARRAY(SELECT generate_series(0, 255)::smallint))
    AND event_key = ANY ($1);
