INSERT INTO orders (run, number, item, cents, event_id)
VALUES (?1, ?2, ?3, ?4, ?5);
