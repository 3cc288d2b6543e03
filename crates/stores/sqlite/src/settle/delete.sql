DELETE FROM outbox_event NOT INDEXED
WHERE seq IN (SELECT value FROM json_each(?1))
    AND token = ?2
    AND status NOT IN (1, 3)
RETURNING seq;
