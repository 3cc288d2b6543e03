//! The transaction that the current task runs in.

use pillarbox::store::TxStore;
use pillarbox::{Delivery, TransactionError};

use crate::stage::{Notes, Stage, placed};

/// W3: without a transaction writing fails at once, and says what to do.
#[tokio::test(start_paused = true)]
async fn writing_without_a_transaction_fails_fast() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();

    let refused = outbox.write_current(placed("order-1")).await.unwrap_err();

    assert_eq!(
        refused.to_string(),
        "no transaction is active on this task; run this code inside `Outbox::transaction`"
    );
    assert!(!outbox.in_transaction());
    assert!(outbox.current().await.is_err());
}

/// W4: code that is called inside a transaction finds it; `Ok` commits.
#[tokio::test(start_paused = true)]
async fn ambient_transaction_commits_what_is_written_within() {
    let (stage, seen, ends) = (Stage::set(), Notes::<Delivery>::new(), Notes::<&str>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let noted = ends.clone();
    let body = async {
        assert!(outbox.in_transaction());
        outbox.current().await.unwrap().after_commit(move || noted.note("committed"));
        outbox.write_current(placed("order-1")).await
    };
    let id = outbox.transaction(body).await.unwrap();
    stage.quiet().await;

    assert_eq!((seen.ids(), ends.all()), (vec![id], vec!["committed"]));
    assert!(!outbox.in_transaction());
}

/// W4, W1: `Err` rolls the ambient transaction back, and so does cancelling.
#[tokio::test(start_paused = true)]
async fn ambient_transaction_rolls_back_on_error_and_cancellation() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();

    let failed = outbox
        .transaction(async {
            outbox.write_current(placed("order-1")).await.unwrap();
            Err::<(), _>("out of stock")
        })
        .await;
    let cancelled = outbox.transaction(async {
        outbox.write_current(placed("order-2")).await.unwrap();
        std::future::pending::<Result<(), ()>>().await
    });
    tokio::select! {
        biased;
        _ = cancelled => unreachable!("its body never ends"),
        () = stage.quiet() => {}
    }
    stage.quiet().await;

    assert!(matches!(failed, Err(TransactionError::Body("out of stock"))), "{failed:?}");
    assert!(!stage.has_row("order-1").await && !stage.has_row("order-2").await);
}

/// W4: the ambient transaction belongs to its task and to its outbox.
#[tokio::test(start_paused = true)]
async fn ambient_transaction_is_seen_by_nobody_else() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let other = stage.outbox().writer_only().start().unwrap();
    let seen = Notes::<bool>::new();

    let body = async {
        let (elsewhere, noted) = (outbox.clone(), seen.clone());
        let task = async move { noted.note(elsewhere.in_transaction()) };
        stage.runtime.spawner.spawn("elsewhere", Box::pin(task));
        stage.quiet().await;
        Ok::<_, ()>((outbox.in_transaction(), other.in_transaction()))
    };
    let within = outbox.transaction(body).await.unwrap();

    assert_eq!((within, seen.all()), ((true, false), vec![false]));
}

/// W4: statements run on the connection of the ambient transaction, and live and die with it.
#[tokio::test(start_paused = true)]
async fn statements_run_on_the_ambient_connection() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let insert = async |order: &str| {
        let mut tx = outbox.current().await.unwrap();
        stage.store.insert(&mut tx, &[placed(order)], None).await
    };

    let committed = outbox
        .transaction(async {
            outbox.write_current(placed("order-1")).await.unwrap();
            let savepoint = outbox.current().await.unwrap().savepoint();
            insert("order-2").await.unwrap();
            outbox.current().await.unwrap().rollback_to(savepoint);
            insert("order-3").await.unwrap();
            Ok::<_, ()>(stage.has_row("order-1").await || stage.has_row("order-3").await)
        })
        .await;
    let failed = outbox
        .transaction(async {
            insert("order-4").await.unwrap();
            Err::<(), _>("out of stock")
        })
        .await;

    assert!(matches!(committed, Ok(false)), "nothing is seen before the commit: {committed:?}");
    assert!(matches!(failed, Err(TransactionError::Body("out of stock"))), "{failed:?}");
    let mut rows = Vec::new();
    for order in ["order-1", "order-2", "order-3", "order-4"] {
        rows.push(stage.has_row(order).await);
    }
    assert_eq!(rows, [true, false, true, false]);
}

/// W4, W5: callbacks of both kinds follow the end of the ambient transaction.
#[tokio::test(start_paused = true)]
async fn callbacks_follow_the_end_of_the_ambient_transaction() {
    let (stage, ends) = (Stage::set(), Notes::<String>::new());
    let outbox = stage.outbox().writer_only().start().unwrap();
    let register = async |name: &str| {
        let (committed, rolled_back) = (ends.clone(), ends.clone());
        let (name, same) = (name.to_owned(), name.to_owned());
        let mut tx = outbox.current().await.unwrap();
        tx.after_commit(move || committed.note(format!("{name} committed")));
        tx.after_rollback(move || rolled_back.note(format!("{same} rolled back")));
    };

    let fine = outbox.transaction(async {
        register("first").await;
        Ok::<_, ()>(ends.len())
    });
    assert_eq!(fine.await.unwrap(), 0, "not before the commit");
    let failing = outbox.transaction(async {
        register("second").await;
        Err::<(), _>("out of stock")
    });
    assert!(failing.await.is_err());
    let cancelled = outbox.transaction(async {
        register("third").await;
        std::future::pending::<Result<(), ()>>().await
    });
    tokio::select! {
        biased;
        _ = cancelled => unreachable!("its body never ends"),
        () = stage.quiet() => {}
    }
    stage.quiet().await;

    assert_eq!(ends.all(), ["first committed", "second rolled back", "third rolled back"]);
}
