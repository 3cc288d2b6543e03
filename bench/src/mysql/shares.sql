SELECT count(*)
FROM outbox_partition
WHERE owner IS NOT NULL
GROUP BY owner, incarnation
