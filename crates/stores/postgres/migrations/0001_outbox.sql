CREATE TABLE outbox_meta (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);

-- What changes comes first, what no state change touches last, the payload among it: the log then holds the
-- changed bytes of a new row version and not the row. Text compares by bytes, whatever the database's collation.
CREATE TABLE outbox_event (
    seq BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    due_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    available_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    status SMALLINT NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3)),
    event_partition SMALLINT,
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    starts INTEGER NOT NULL DEFAULT 0 CHECK (starts >= 0),
    -- For indexes: a row that becomes done changes neither, so that no index hears of it. One whose condition named the
    -- status would make every index take the row in anew.
    aside_at TIMESTAMPTZ GENERATED ALWAYS AS (CASE WHEN status = 2 THEN available_at END) STORED,
    is_dead BOOLEAN GENERATED ALWAYS AS (CASE WHEN status = 3 THEN TRUE END) STORED,
    done_at TIMESTAMPTZ,
    token BIGINT,
    locked_at TIMESTAMPTZ,
    locked_by TEXT COLLATE "C",
    last_error TEXT,
    reason TEXT,
    handlers TEXT,
    occurred_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    event_id TEXT COLLATE "C" NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    aggregate_type TEXT NOT NULL DEFAULT '__GLOBAL__',
    aggregate_id TEXT COLLATE "C",
    tenant_id TEXT,
    event_key TEXT COLLATE "C",
    headers JSON,
    context JSON,
    payload JSON,
    payload_bytes BYTEA,
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
)
-- A row is written two or three times. With room on its page for the next version, the log holds what changed and
-- not the row again.
WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);

CREATE INDEX outbox_event_pending ON outbox_event (available_at, seq) WHERE status IN (0, 2);

CREATE INDEX outbox_event_aggregate ON outbox_event (aggregate_id, seq) WHERE aggregate_id IS NOT NULL;

CREATE INDEX outbox_event_dead ON outbox_event (seq) WHERE is_dead;

-- The partition of a row whose writer left it out, or gave a number that is none: the low byte of MurmurHash3 (x86, 32
-- bits, seed 0) of the key's UTF-8. It calls no function of ours, so that no search path can lead it astray. A product of
-- two numbers of 32 bits may not fit into 64 bits with a sign, so the left one is multiplied in halves.
CREATE FUNCTION outbox_fill_partition() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    bytes CONSTANT bytea := convert_to(NEW.event_key, 'UTF8');
    length CONSTANT integer := octet_length(bytes);
    tail CONSTANT integer := length - length % 4;
    hash bigint := 0;
    block bigint;
BEGIN
    FOR i IN 0 .. (length + 3) / 4 - 1 LOOP
        block := 0;
        FOR j IN REVERSE least(4 * i + 3, length - 1) .. 4 * i LOOP
            block := (block << 8) | get_byte(bytes, j);
        END LOOP;
        block := ((block & 65535) * 3432918353 + (((block >> 16) * 3432918353 & 65535) << 16)) & 4294967295;
        block := ((block << 15) | (block >> 17)) & 4294967295;
        block := ((block & 65535) * 461845907 + (((block >> 16) * 461845907 & 65535) << 16)) & 4294967295;
        hash := hash # block;
        IF 4 * i < tail THEN
            hash := ((hash << 13) | (hash >> 19)) & 4294967295;
            hash := (hash * 5 + 3864292196) & 4294967295;
        END IF;
    END LOOP;
    hash := hash # length;
    hash := hash # (hash >> 16);
    hash := ((hash & 65535) * 2246822507 + (((hash >> 16) * 2246822507 & 65535) << 16)) & 4294967295;
    hash := hash # (hash >> 13);
    hash := ((hash & 65535) * 3266489909 + (((hash >> 16) * 3266489909 & 65535) << 16)) & 4294967295;
    hash := hash # (hash >> 16);
    NEW.event_partition := hash & 255;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_event_partition
BEFORE INSERT ON outbox_event
FOR EACH ROW
WHEN (coalesce(NEW.event_partition, -1) NOT BETWEEN 0 AND 255 AND NEW.event_key IS NOT NULL)
EXECUTE FUNCTION outbox_fill_partition();
