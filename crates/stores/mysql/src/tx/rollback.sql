ROLLBACK;
SET SESSION autocommit = 0;
START TRANSACTION;
SAVEPOINT pillarbox_transaction
