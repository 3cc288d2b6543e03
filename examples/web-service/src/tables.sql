CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    item TEXT NOT NULL,
    quantity INTEGER NOT NULL
);

-- An event may be delivered twice; its id is here once.
CREATE TABLE IF NOT EXISTS mails (
    event_id TEXT PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    text TEXT NOT NULL,
    attempt INTEGER NOT NULL
);
