RELEASE SAVEPOINT pillarbox_transaction;
COMMIT AND CHAIN;
SAVEPOINT pillarbox_transaction
