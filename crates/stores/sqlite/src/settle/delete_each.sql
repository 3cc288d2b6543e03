DELETE FROM outbox_event NOT INDEXED
WHERE seq IN (
    SELECT held.seq
    FROM json_each(?1) AS settled
    CROSS JOIN outbox_event AS held NOT INDEXED ON held.seq = CAST(settled.key AS INTEGER)
    WHERE held.token = settled.value
)
    AND status NOT IN (1, 3)
RETURNING seq;
