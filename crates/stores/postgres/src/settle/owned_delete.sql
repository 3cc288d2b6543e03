WITH settled AS (
    DELETE FROM outbox_event AS event
    USING unnest($1::bigint[], $2::bigint[], $3::text[]) AS told (seq, token, event_id)
    WHERE event.seq = told.seq
        AND event.event_id IS NOT DISTINCT FROM told.event_id
        AND event.event_partition = ~told.token & 255
        AND event.status NOT IN (1, 3)
        -- A token is the complement of the epoch and the partition, which is its lowest byte.
        AND told.token = ANY (
            ARRAY(
                SELECT ~(epoch << 8 | event_partition)
                FROM outbox_partition
                WHERE event_partition = ANY ($4::smallint[])
            )
        )
    RETURNING told.seq, told.token
)
-- One row, which lists what was settled only if something is missing.
SELECT
    CASE WHEN count(*) < cardinality($1) THEN coalesce(array_agg(seq), '{}') END AS seqs,
    CASE WHEN count(*) < cardinality($1) THEN coalesce(array_agg(token), '{}') END AS tokens
FROM settled;
