SELECT
    id,
    item,
    quantity,
    EXISTS (SELECT 1 FROM mails WHERE order_id = orders.id)
FROM orders
WHERE id = ?
