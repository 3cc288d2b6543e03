RELEASE SAVEPOINT pillarbox_transaction;
COMMIT;
SET SESSION autocommit = 1
