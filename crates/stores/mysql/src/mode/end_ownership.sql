UPDATE outbox_partition
SET
    owner = NULL,
    incarnation = NULL,
    epoch = epoch + 1,
    until = NULL,
    floor = 0,
    crashes = 0,
    suspect_to = 0
