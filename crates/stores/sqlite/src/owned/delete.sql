DELETE FROM outbox_event NOT INDEXED
WHERE seq IN (
    SELECT owned.seq
    FROM json_each(?1) AS settled
    CROSS JOIN outbox_event AS owned NOT INDEXED ON owned.seq = CAST(settled.key AS INTEGER)
    CROSS JOIN outbox_partition AS lease NOT INDEXED ON lease.event_partition = owned.event_partition
    WHERE settled.value = (
        ~((lease.epoch << 8) | lease.event_partition) || iif(instr(settled.value, '/'), '/' || owned.event_id, '')
    )
)
    AND status NOT IN (1, 3)
RETURNING seq;
