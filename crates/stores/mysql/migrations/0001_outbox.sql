-- Names, ids and keys compare by their bytes and without padding; the collation that does so has one
-- name in MySQL and another in MariaDB. Times are UTC. There are no partial indexes: what is neither pending nor dead is NULL
-- in `is_pending` and `is_dead`, and lies in one place of their indexes where nobody looks.
CREATE TABLE IF NOT EXISTS outbox_meta (
    name VARCHAR(255) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */ NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS outbox_event (
    seq BIGINT NOT NULL AUTO_INCREMENT,
    status TINYINT NOT NULL DEFAULT 0,
    is_pending TINYINT GENERATED ALWAYS AS (IF(status IN (0, 2), 1, NULL)) STORED,
    is_dead TINYINT GENERATED ALWAYS AS (IF(status = 3, 1, NULL)) STORED,
    attempts INT NOT NULL DEFAULT 0,
    starts INT NOT NULL DEFAULT 0,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    due_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    available_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    done_at DATETIME(6),
    token BIGINT,
    locked_by VARCHAR(255),
    locked_at DATETIME(6),
    last_error TEXT,
    reason TEXT,
    handlers LONGTEXT,
    event_id VARCHAR(36) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */ NOT NULL,
    event_type VARCHAR(128) NOT NULL,
    aggregate_type VARCHAR(64) NOT NULL DEFAULT '__GLOBAL__',
    aggregate_id VARCHAR(128) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */,
    tenant_id VARCHAR(64),
    event_key VARCHAR(128) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */,
    event_partition TINYINT UNSIGNED,
    occurred_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    headers MEDIUMTEXT,
    context MEDIUMTEXT,
    payload LONGTEXT,
    payload_bytes LONGBLOB,
    PRIMARY KEY (seq),
    UNIQUE KEY outbox_event_id (event_id),
    KEY outbox_event_pending (is_pending, available_at, seq),
    KEY outbox_event_dead (is_dead, seq),
    KEY outbox_event_aggregate (aggregate_id, seq),
    CHECK (status IN (0, 1, 2, 3)),
    CHECK (attempts >= 0),
    CHECK (starts >= 0),
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
