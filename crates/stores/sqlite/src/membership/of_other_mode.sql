SELECT name
FROM outbox_instance
WHERE mode <> ?1
    AND until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    AND until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
    AND NOT (?2 AND name = ?3 AND incarnation <> ?4)
ORDER BY name, incarnation;
