-- The partition of a row whose writer gave a key and no partition: the low byte of MurmurHash3 (x86, 32 bits,
-- seed 0) of the key's UTF-8, four bytes at a time, the lowest first.
CREATE TRIGGER outbox_event_partition
BEFORE INSERT ON outbox_event
FOR EACH ROW
IF NEW.event_key IS NOT NULL AND NEW.event_partition IS NULL THEN
BEGIN
    DECLARE unread VARBINARY(512) DEFAULT NEW.event_key;
    DECLARE word, hash BIGINT UNSIGNED DEFAULT 0;
    WHILE LENGTH(unread) > 0 DO
        SET word = CAST(CONV(HEX(REVERSE(LEFT(unread, 4))), 16, 10) AS UNSIGNED) * 3432918353 & 4294967295;
        SET hash = hash ^ (((word << 15 | word >> 17) & 4294967295) * 461845907 & 4294967295);
        IF LENGTH(unread) > 3 THEN
            SET hash = ((hash << 13 | hash >> 19) & 4294967295) * 5 + 3864292196 & 4294967295;
        END IF;
        SET unread = SUBSTRING(unread, 5);
    END WHILE;
    SET hash = hash ^ LENGTH(NEW.event_key);
    SET hash = (hash ^ (hash >> 16)) * 2246822507 & 4294967295;
    SET hash = (hash ^ (hash >> 13)) * 3266489909 & 4294967295;
    SET NEW.event_partition = (hash ^ (hash >> 16)) & 255;
END;
END IF
