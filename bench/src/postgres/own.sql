UPDATE outbox_partition
SET
    owner_name = 'by hand',
    owner_incarnation = '1',
    epoch = 1,
    until = statement_timestamp() + interval '1 hour';
