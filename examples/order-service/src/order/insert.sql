INSERT INTO orders (customer, items, total_cents)
VALUES ($1, $2::json, $3)
RETURNING
    id,
    gen_random_uuid()::text,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
