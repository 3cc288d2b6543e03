DELETE FROM outbox_event AS event
USING unnest($1::bigint[], $2::bigint[]) AS settled (seq, token)
WHERE event.seq = settled.seq
    AND event.token = settled.token
    AND event.status NOT IN (1, 3)
RETURNING settled.seq, settled.token;
