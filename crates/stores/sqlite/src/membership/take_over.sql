UPDATE outbox_partition
SET
    owner_name = ?1,
    owner_incarnation = ?2,
    epoch = epoch + 1,
    floor = iif(floor > last.highest, 0, floor),
    crashes = iif(owner_name IS NULL, crashes, crashes + 1),
    suspect_to = iif(owner_name IS NULL, suspect_to, last.highest)
FROM (
    SELECT coalesce(max(seq), 0) AS highest
    FROM sqlite_sequence
    WHERE name = 'outbox_event'
) AS last
WHERE event_partition IN (SELECT value FROM json_each(?3))
    AND (owner_name IS NOT ?1 OR owner_incarnation IS NOT ?2)
    AND iif(
        ?4,
        owner_name = ?1,
        owner_name IS NULL
            OR until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
            OR until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
    );
