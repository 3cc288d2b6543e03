-- Who takes part, who owns which partition, and which keys are parked. There are no partial indexes here either:
-- `aside_in` is the partition of a row that was set aside, and `aside_key` its key unless it stands apart from it. They
-- are virtual, and added apart from the plain column, so that no row is written anew for them. Their indexes are made
-- when the mode becomes `ownership`, and so is that of fresh rows, which needs no column of its own.
CREATE TABLE IF NOT EXISTS outbox_instance (
    owner VARCHAR(255) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */ NOT NULL,
    incarnation CHAR(16) NOT NULL,
    mode VARCHAR(16) NOT NULL,
    joined_at DATETIME(6) NOT NULL,
    seen_at DATETIME(6) NOT NULL,
    until DATETIME(6) NOT NULL,
    PRIMARY KEY (owner, incarnation)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS outbox_partition (
    event_partition TINYINT UNSIGNED NOT NULL,
    owner VARCHAR(255) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */,
    incarnation CHAR(16),
    epoch BIGINT NOT NULL DEFAULT 0,
    until DATETIME(6),
    floor BIGINT NOT NULL DEFAULT 0,
    crashes INT NOT NULL DEFAULT 0,
    suspect_to BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (event_partition)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS outbox_parked (
    event_key VARCHAR(128) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */ NOT NULL,
    event_partition TINYINT UNSIGNED NOT NULL,
    event_id VARCHAR(36) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */ NOT NULL,
    since DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (event_key, event_partition),
    UNIQUE KEY outbox_parked_event (event_id),
    KEY outbox_parked_partition (event_partition)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO outbox_partition (event_partition)
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 255)
SELECT n
FROM number;

INSERT IGNORE INTO outbox_meta (name, value)
VALUES ('mode', 'claims');

SET @pillarbox_alter = IF(
    (
        SELECT COUNT(*)
        FROM information_schema.columns
        WHERE table_schema = :database
            AND table_name = ':prefixoutbox_event'
            AND column_name = 'stands_apart'
    ) > 0,
    'DO 0',
    'ALTER TABLE outbox_event ADD COLUMN stands_apart TINYINT'
);
PREPARE pillarbox_alter FROM @pillarbox_alter;
EXECUTE pillarbox_alter;

SET @pillarbox_alter = IF(
    (
        SELECT COUNT(*)
        FROM information_schema.columns
        WHERE table_schema = :database
            AND table_name = ':prefixoutbox_event'
            AND column_name = 'aside_in'
    ) > 0,
    'DO 0',
    'ALTER TABLE outbox_event
        ADD COLUMN aside_in SMALLINT GENERATED ALWAYS AS (IF(status = 2, event_partition, NULL)) VIRTUAL,
        ADD COLUMN aside_key VARCHAR(128) COLLATE /*!80017 utf8mb4_0900_bin *//*M! utf8mb4_nopad_bin */
            GENERATED ALWAYS AS (IF(status = 2 AND stands_apart IS NULL, event_key, NULL)) VIRTUAL'
);
PREPARE pillarbox_alter FROM @pillarbox_alter;
EXECUTE pillarbox_alter;
DEALLOCATE PREPARE pillarbox_alter;
