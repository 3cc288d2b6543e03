UPDATE outbox_event NOT INDEXED
SET available_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?2
FROM json_each(?1) AS leased
WHERE seq = leased.value ->> 0
    AND token = leased.value ->> 1
    AND status NOT IN (1, 3)
RETURNING seq;
