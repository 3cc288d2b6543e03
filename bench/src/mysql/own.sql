UPDATE outbox_partition
SET
    owner = 'by hand',
    incarnation = '1',
    epoch = 1,
    until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
