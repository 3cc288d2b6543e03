-- Whose place was taken is remembered for a while, to be told so should it wake up.
DELETE FROM outbox_instance
WHERE (until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 AND until > 0)
    OR (until = 0 AND seen_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - 3600000000)
    OR until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000;
