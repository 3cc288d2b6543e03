UPDATE outbox_partition
SET
    floor = max(floor, told.value ->> 2),
    owner_name = NULL,
    owner_incarnation = NULL
FROM json_each(?3) AS told
WHERE event_partition = told.value ->> 0
    AND epoch = told.value ->> 1
    AND owner_name = ?1
    AND owner_incarnation = ?2;
