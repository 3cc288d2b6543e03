COMMIT;
SET SESSION wait_timeout = 30
