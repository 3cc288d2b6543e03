-- Who takes part. The incarnation is written as it is in `locked_by`, behind the name.
--
-- The rows of this table and the next are few and are written with every heartbeat: a page has room for many versions
-- of each, which are cleared away in passing, and no index has a column that changes.
CREATE TABLE outbox_instance (
    name TEXT COLLATE "C",
    incarnation TEXT COLLATE "C",
    mode TEXT NOT NULL CHECK (mode IN ('claims', 'ownership')),
    joined_at TIMESTAMPTZ NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    until TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (name, incarnation)
)
WITH (
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off
);

-- Who owns which partition; nobody, if it was released or never owned.
CREATE TABLE outbox_partition (
    event_partition SMALLINT PRIMARY KEY CHECK (event_partition BETWEEN 0 AND 255),
    owner_name TEXT COLLATE "C",
    owner_incarnation TEXT COLLATE "C",
    epoch BIGINT NOT NULL DEFAULT 0,
    until TIMESTAMPTZ,
    floor BIGINT NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    suspect_to BIGINT NOT NULL DEFAULT 0,
    CHECK ((owner_name IS NULL) = (owner_incarnation IS NULL) AND (owner_name IS NULL) = (until IS NULL))
)
WITH (
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off
);

INSERT INTO outbox_partition (event_partition)
SELECT number
FROM generate_series(0, 255) AS number;

-- Keys that wait for an operator to decide about a dead event.
CREATE TABLE outbox_parked (
    event_partition SMALLINT,
    event_key TEXT COLLATE "C",
    event_id TEXT COLLATE "C" NOT NULL,
    parked_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (event_partition, event_key)
);

-- What waits for nothing but its key is brought back with its key. Rows that were there before are not looked at.
ALTER TABLE outbox_event
ADD CONSTRAINT outbox_event_endless CHECK (available_at < 'infinity' OR event_key IS NOT NULL) NOT VALID;

-- The partition of a row without a key whose writer left it out, or gave a number that is none: one by its number.
CREATE FUNCTION outbox_spread_partition() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.event_partition := NEW.seq & 255;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_event_spread
BEFORE INSERT ON outbox_event
FOR EACH ROW
WHEN (coalesce(NEW.event_partition, -1) NOT BETWEEN 0 AND 255 AND NEW.event_key IS NULL)
EXECUTE FUNCTION outbox_spread_partition();
