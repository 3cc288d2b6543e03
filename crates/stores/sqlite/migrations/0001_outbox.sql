CREATE TABLE outbox_meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Times are microseconds since 1970. What no state change touches comes last, the payload among it: a row is
-- read up to the last column that is asked for.
CREATE TABLE outbox_event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    status INTEGER NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3)),
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    starts INTEGER NOT NULL DEFAULT 0 CHECK (starts >= 0),
    created_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
    due_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
    available_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
    done_at INTEGER,
    token INTEGER,
    locked_by TEXT,
    locked_at INTEGER,
    last_error TEXT,
    reason TEXT,
    handlers TEXT,
    event_id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    aggregate_type TEXT NOT NULL DEFAULT '__GLOBAL__',
    aggregate_id TEXT,
    tenant_id TEXT,
    event_key TEXT,
    event_partition INTEGER,
    occurred_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
    headers TEXT,
    context TEXT,
    payload TEXT,
    payload_bytes BLOB,
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
) STRICT;

-- Every index of SQLite ends with the number of the row, so this one is ordered by (available_at, seq). A status
-- that does not exist (CHECK constraints can be switched off) is pending too: it must come to light.
CREATE INDEX outbox_event_pending ON outbox_event (available_at) WHERE status NOT IN (1, 3);

CREATE INDEX outbox_event_aggregate ON outbox_event (aggregate_id) WHERE aggregate_id IS NOT NULL;

CREATE INDEX outbox_event_dead ON outbox_event (seq) WHERE status = 3;
