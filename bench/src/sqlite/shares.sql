SELECT count(*)
FROM outbox_partition
WHERE owner_name IS NOT NULL
GROUP BY owner_name, owner_incarnation;
