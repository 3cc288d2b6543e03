UPDATE outbox_event NOT INDEXED
SET event_partition = placed.value ->> 1
FROM json_each(?1) AS placed
WHERE seq = placed.value ->> 0;
