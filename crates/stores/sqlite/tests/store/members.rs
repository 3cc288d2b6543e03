//! Who takes part, and what changes of owners and modes leave behind.

use std::time::Duration;

use pillarbox::store::{Floor, Instance, Mode, Owner, Ownership};
use pillarbox_sqlite::SqliteStore;

use crate::orders::{Orders, order_placed, write};
use crate::relays::instance;

fn owning(name: &str) -> Instance {
    instance(name, Mode::Ownership)
}

/// The same instance, counting as dead when the call returns.
fn dying(instance: &Instance) -> Instance {
    Instance { live_for: Duration::ZERO, ..instance.clone() }
}

/// Who is alive, as `instance` hears.
async fn members(store: &SqliteStore, instance: &Instance) -> Vec<Owner> {
    let pulse = store.beat(instance, &[]).await.unwrap();
    pulse.members.into_iter().map(|member| member.owner).collect()
}

/// O4: an instance is a member for as long as it said last, not as it said first.
#[tokio::test]
async fn member_lives_as_long_as_it_said_last() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (relay, other) = (owning("relay"), owning("relay-2"));
    store.join(&relay).await.unwrap();
    store.join(&other).await.unwrap();

    store.beat(&dying(&other), &[]).await.unwrap();

    assert_eq!(members(&store, &relay).await, std::slice::from_ref(&relay.owner));
}

/// O4: silence is counted from the last heartbeat, and membership from the first.
#[tokio::test]
async fn silence_ends_with_a_heartbeat() {
    let orders = Orders::new();
    let store = orders.store().await;
    let relay = owning("relay");
    store.join(&relay).await.unwrap();

    // Until the clock of the database has gone on.
    let member = loop {
        let member = store.beat(&relay, &[]).await.unwrap().members.remove(0);
        if member.joined_ago >= Duration::from_millis(50) {
            break member;
        }
    };

    assert!(member.silent_for < member.joined_ago, "{member:?}");
}

/// O5: a name that was set takes the place of its own earlier incarnations, and of no others.
#[tokio::test]
async fn named_instance_strikes_off_its_own_name_only() {
    let orders = Orders::new();
    let store = orders.store().await;
    let incarnation = |name: &str, number| Instance { owner: Owner::new(name, number), ..owning(name) };
    let named = |name: &str, number| Instance { is_named: true, ..incarnation(name, number) };
    let joining = [
        named("relay", 1),
        named("shop", 1),
        incarnation("host", 1),
        incarnation("host", 2),
        named("relay", 2),
    ];

    for instance in &joining {
        store.join(instance).await.unwrap();
    }

    let [_, shop, host, host_again, relay] = joining.map(|instance| instance.owner);
    let alive = members(&store, &named("shop", 1)).await;
    assert_eq!(alive, [host, host_again, relay, shop]);
}

/// D3, O5: a partition that was given back keeps the suspicion that it had, and gets no other.
#[tokio::test]
async fn suspicion_is_handed_over_as_it_was() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (relay, other) = (owning("relay"), owning("relay-2"));
    write(&store, &[order_placed("order-17")]).await;
    store.join(&relay).await.unwrap();
    store.acquire(&dying(&relay), &[7]).await.unwrap();
    let suspected = store.acquire(&other, &[7]).await.unwrap()[0];
    assert_eq!((suspected.crashes, suspected.suspect_to), (1, 1));
    write(&store, &[order_placed("order-17")]).await;

    let floor = Floor { partition: 7, epoch: suspected.epoch, floor: 0 };
    store.release(&other.owner, &[floor]).await.unwrap();
    let handed_over = store.acquire(&relay, &[7]).await.unwrap()[0];

    assert_eq!((handed_over.crashes, handed_over.suspect_to), (1, 1));
}

/// O3: a change of the mode forgets owners and crashes.
#[tokio::test]
async fn change_of_mode_forgets_owners_and_crashes() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (relay, other) = (owning("relay"), owning("relay-2"));
    write(&store, &[order_placed("order-17")]).await;
    store.join(&relay).await.unwrap();
    store.acquire(&dying(&relay), &[7]).await.unwrap();
    let before = store.acquire(&other, &[7, 8]).await.unwrap();
    assert_eq!(before[0].crashes, 1);
    store.leave(&relay.owner).await.unwrap();

    store.migrate_to(Mode::Claims).await.unwrap();
    store.join(&relay).await.unwrap();
    let after = store.acquire(&relay, &[7, 8]).await.unwrap();

    assert_eq!(after.len(), 2);
    for (before, after) in before.iter().zip(after) {
        assert!(after.epoch > before.epoch);
        assert_eq!((after.crashes, after.suspect_to), (0, 0));
    }
}
