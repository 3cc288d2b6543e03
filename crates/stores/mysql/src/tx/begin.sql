SET SESSION autocommit = 0;
START TRANSACTION READ WRITE;
SAVEPOINT pillarbox_transaction
