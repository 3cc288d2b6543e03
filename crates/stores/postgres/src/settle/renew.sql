UPDATE outbox_event AS event
SET available_at = statement_timestamp() + $3 * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[]) AS leased (seq, token)
WHERE event.seq = leased.seq
    AND event.token = leased.token
    AND event.status NOT IN (1, 3)
RETURNING leased.seq, leased.token;
