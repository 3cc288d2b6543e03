-- Who takes part. The incarnation is written as it is in `locked_by`, behind the name.
CREATE TABLE outbox_instance (
    name TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('claims', 'ownership')),
    joined_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (name, incarnation)
) STRICT, WITHOUT ROWID;

-- Who owns which partition; nobody, if it was released or never owned.
CREATE TABLE outbox_partition (
    event_partition INTEGER PRIMARY KEY CHECK (event_partition BETWEEN 0 AND 255),
    owner_name TEXT,
    owner_incarnation TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    until INTEGER NOT NULL DEFAULT 0,
    floor INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    suspect_to INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO outbox_partition (event_partition)
WITH RECURSIVE partitions (number) AS (
    VALUES (0)
    UNION ALL
    SELECT number + 1
    FROM partitions
    WHERE number < 255
)
SELECT number
FROM partitions;

-- Keys that wait for an operator to decide about a dead event.
CREATE TABLE outbox_parked (
    event_key TEXT NOT NULL,
    event_partition INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    parked_at INTEGER NOT NULL,
    PRIMARY KEY (event_key, event_partition)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_parked_partition ON outbox_parked (event_partition);
