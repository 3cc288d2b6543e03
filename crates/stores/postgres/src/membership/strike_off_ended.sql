-- Whose place was taken is remembered for a while, to be told so should it wake up.
DELETE FROM outbox_instance
WHERE (until <= statement_timestamp() AND until > '-infinity')
    OR (until = '-infinity' AND seen_at <= statement_timestamp() - interval '1 hour')
    OR until > statement_timestamp() + interval '1 hour';
