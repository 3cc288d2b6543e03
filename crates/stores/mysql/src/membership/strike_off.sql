-- Whose place was taken is remembered for a while, to be told so should it wake up.
DELETE FROM outbox_instance
WHERE (until <= UTC_TIMESTAMP(6) AND until > TIMESTAMP '1970-01-01 00:00:00')
    OR (until = TIMESTAMP '1970-01-01 00:00:00' AND seen_at <= UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)
    OR until > UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
