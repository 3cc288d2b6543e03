//! What the server may answer to each step: the kind of the error, how often the step is tried, and the words.

use std::time::Duration;

use pillarbox::store::{
    Administration, CommitError, DoneRows, EventStore, InsertError, Outcome, Purge, Settlement, StoreError,
    Taken, TxStore,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{order_placed, take, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::Row;

use crate::stage::PostgresStage;

/// A trigger that does `{deed}` the first `{times}` times, and counts.
const FAULT: &str = "
    CREATE SEQUENCE {schema}.tries;
    CREATE FUNCTION {schema}.fail() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        IF nextval('{schema}.tries') <= {times} THEN
            {deed};
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE {trigger} EXECUTE FUNCTION {schema}.fail()";

/// Before every statement that changes events.
const EACH_STATEMENT: &str =
    "TRIGGER fail BEFORE INSERT OR UPDATE OR DELETE ON outbox_event FOR EACH STATEMENT";

/// When a transaction with events is committed.
const EACH_COMMIT: &str =
    "CONSTRAINT TRIGGER fail AFTER INSERT ON outbox_event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW";

const ALWAYS: i64 = i64::MAX;

/// The steps that change events.
const STEPS: [&str; 4] = ["insert", "take", "settle", "purge"];

fn raised(code: &str) -> String {
    format!("RAISE EXCEPTION 'made up' USING ERRCODE = '{code}'")
}

async fn break_it(stage: &PostgresStage, trigger: &str, deed: &str, times: i64) {
    let fault = FAULT
        .replace("{trigger}", trigger)
        .replace("{deed}", deed)
        .replace("{times}", &times.to_string())
        .replace("{schema}", &stage.schema);
    stage.execute(fault).await;
}

/// Takes the trigger away, and returns how often it was called.
async fn mend_it(stage: &PostgresStage) -> i64 {
    let mut connection = stage.connection().await;
    let tries = sqlx::query("SELECT last_value FROM tries").fetch_one(&mut connection).await.unwrap().get(0);
    stage.execute("DROP FUNCTION fail CASCADE; DROP SEQUENCE tries").await;
    tries
}

/// Does one of [`STEPS`].
async fn step(store: &PostgresStore, name: &str, taken: &Taken) -> Result<(), StoreError> {
    match name {
        "insert" => {
            let mut tx = store.begin().await?;
            match store.insert(&mut tx, &[order_placed("order-18")], None).await {
                Ok(()) => PostgresStore::rollback(tx).await,
                Err(InsertError::Store(error)) => Err(error),
                Err(other) => panic!("{other:?}"),
            }
        }
        "take" => store.take(take(1)).await.map(drop),
        "settle" => {
            let settlement = Settlement::of(taken, Outcome::Done);
            store.settle(&[settlement], DoneRows::Keep).await.map(drop)
        }
        _ => {
            let purge = Purge { after: 0, limit: 10, older_than: Duration::ZERO, dead_too: true };
            store.purge(purge).await.map(drop)
        }
    }
}

/// An event that is taken.
async fn taken(stage: &PostgresStage) -> Taken {
    write(stage, &[order_placed("order-17")]).await;
    stage.store.take(take(1)).await.unwrap().events.remove(0)
}

/// S3, D11: what is wrong with the server and not with the statement may pass, in every step, and is told in our
/// words. Only who stood in another's way is tried again at once, and not in a transaction of the user's.
pub(crate) async fn faults_of_the_server_may_pass(stage: &PostgresStage) {
    let taken = taken(stage).await;
    let cancelled = "PERFORM pg_cancel_backend(pg_backend_pid()), pg_sleep(10)";
    let ended = "PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(10)";
    let faults = [
        (raised("53100"), "the disk of `", 1),
        (raised("40001"), "stood in the way", 3),
        (raised("40P01"), "stood in the way", 3),
        (raised("40003"), "a statement on `", 1),
        (raised("25006"), "is read-only; it became a standby, or its `default_transaction_read_only`", 1),
        (raised("53300"), "has no connection left; raise its `max_connections`", 1),
        (cancelled.to_owned(), "took too long or was cancelled; see `statement_timeout`", 1),
        (ended.to_owned(), "ended the connection", 1),
    ];

    for (deed, words, tries) in faults {
        for name in STEPS {
            break_it(stage, EACH_STATEMENT, &deed, ALWAYS).await;
            let error = step(&stage.store, name, &taken).await.unwrap_err();
            let tried = mend_it(stage).await;

            assert!(error.is_transient() && error.to_string().contains(words), "{name}: {error:?}");
            assert!(std::error::Error::source(&error).is_some(), "{name}: {error:?}");
            let expected = if name == "insert" { 1 } else { tries };
            assert_eq!(tried, expected, "{name}: {error:?}");
            step(&stage.store, name, &taken).await.unwrap();
        }
    }
}

/// S3: who stood in another's way once or twice is not told of it.
pub(crate) async fn collision_that_passes_is_not_told(stage: &PostgresStage) {
    let taken = taken(stage).await;

    for name in ["take", "settle", "purge"] {
        break_it(stage, EACH_STATEMENT, &raised("40001"), 2).await;
        step(&stage.store, name, &taken).await.unwrap();
        assert!(mend_it(stage).await >= 3, "{name} was tried again until it passed");
    }
}

/// D12: what is wrong with the statement does not pass: it is refused, and not tried again.
pub(crate) async fn faults_of_the_statement_are_refused(stage: &PostgresStage) {
    let taken = taken(stage).await;

    for code in ["22003", "23514", "42703", "P0001"] {
        for name in STEPS {
            break_it(stage, EACH_STATEMENT, &raised(code), ALWAYS).await;
            let error = step(&stage.store, name, &taken).await.unwrap_err();
            let tried = mend_it(stage).await;

            assert!(matches!(error, StoreError::Refused { .. }), "{name} {code}: {error:?}");
            assert_eq!(tried, 1, "{name} {code}");
        }
    }
}

/// W5, W13: a commit that the server refuses did not happen; one whose session it ends, or of which it says so, is
/// not known to have happened.
pub(crate) async fn refused_commit_is_certain_and_a_lost_one_is_not(stage: &PostgresStage) {
    let (cancelled, ended) =
        ("pg_cancel_backend(pg_backend_pid())", "pg_terminate_backend(pg_backend_pid())");
    let [cancelled, ended] = [cancelled, ended].map(|deed| format!("PERFORM {deed}, pg_sleep(10)"));
    let certain = ["53100", "40001", "25006", "53300", "P0001"].map(raised).into_iter().chain([cancelled]);
    let uncertain = [raised("40003"), ended];
    let deeds = certain.map(|deed| (deed, true)).chain(uncertain.map(|deed| (deed, false)));

    for (deed, is_certain) in deeds {
        break_it(stage, EACH_COMMIT, &deed, ALWAYS).await;
        let event = order_placed("order-17");
        let mut tx = stage.store.begin().await.unwrap();
        stage.store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
        let error = PostgresStore::commit(tx).await.unwrap_err();
        mend_it(stage).await;

        assert_eq!(matches!(error, CommitError::RolledBack { .. }), is_certain, "{deed}: {error:?}");
        let words = if is_certain { "refused the commit" } else { "was lost" };
        assert!(error.to_string().contains(words), "{error}");
        assert!(stage.store.find(event.id()).await.unwrap().is_none());
    }
}

/// A server without a connection for us says so, and that may pass.
pub(crate) async fn full_server_is_named(stage: &PostgresStage) {
    let (role, schema) = (unique_name(), &stage.schema);
    let grants = format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON outbox_meta TO {role}");
    let url = stage.login(&role, &grants).await;
    stage.execute(format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await;

    let full = PostgresStore::options(&url).schema(schema).connect().await.unwrap_err();
    stage.execute(format!("ALTER ROLE {role} CONNECTION LIMIT 1")).await;
    let impatient = PostgresStore::options(&url).schema(schema).connect_timeout(Duration::from_secs(1));
    let store = impatient.connect().await.unwrap();
    let no_second = store.begin().await.unwrap_err();

    assert!(full.is_transient() && full.to_string().contains("has no connection left"), "{full:?}");
    assert!(no_second.is_transient(), "{no_second:?}");
    assert!(no_second.to_string().contains("see whether the server has none left"), "{no_second}");
    store.close().await;
    stage.drop_role(&role).await;
}
