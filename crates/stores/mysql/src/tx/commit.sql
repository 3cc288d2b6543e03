RELEASE SAVEPOINT pillarbox_transaction;
COMMIT AND CHAIN NO RELEASE;
SAVEPOINT pillarbox_transaction
