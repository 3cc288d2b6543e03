CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    total BIGINT NOT NULL
);
