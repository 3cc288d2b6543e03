UPDATE outbox_partition
SET
    owner_name = NULL,
    owner_incarnation = NULL,
    epoch = epoch + 1,
    until = 0,
    floor = 0,
    crashes = 0,
    suspect_to = 0;

DELETE FROM outbox_parked;
