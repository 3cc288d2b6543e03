UPDATE outbox_event
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE status = 0
    AND token IS NOT NULL;

UPDATE outbox_event
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE status = 2
    AND (token IS NOT NULL OR available_at = 'infinity');

DELETE FROM outbox_parked;

UPDATE outbox_partition
SET
    owner_name = NULL,
    owner_incarnation = NULL,
    epoch = epoch + 1,
    until = NULL,
    floor = 0,
    crashes = 0,
    suspect_to = 0;
