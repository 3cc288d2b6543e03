UPDATE outbox_partition
SET
    owner_name = 'by hand',
    owner_incarnation = '1',
    epoch = 1,
    until = (unixepoch() + 3600) * 1000000;
