SELECT
    id,
    customer,
    items::text,
    total_cents,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
FROM orders
WHERE id = $1
