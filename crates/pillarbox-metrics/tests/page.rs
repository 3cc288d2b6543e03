//! Each number reaches the page under its own name.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use pillarbox::store::{Census, Mode, Tenancy};
use pillarbox::{Keys, MetricsExporter, Share};
use pillarbox_metrics::Metrics;

/// The lines of the page that are about this outbox and no histogram, after it was told something.
fn page(tell: impl FnOnce(&Metrics)) -> Vec<String> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::with_local_recorder(&recorder, || tell(&Metrics::of("orders")));
    let lines = page.render();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("pillarbox_"));
    lines.map(|line| line.replace("{outbox=\"orders\"}", "")).collect()
}

fn assert_shows(page: &[String], lines: &[&str]) {
    for line in lines {
        assert!(page.iter().any(|shown| shown == line), "{line} in {page:#?}");
    }
}

/// O7, M2: shares, keys and what waits in partitions are told apart.
#[test]
fn gauges_of_partitions_show_what_was_told() {
    let mut share = Share::default();
    (share.instances, share.held, share.fair) = (3, 85, 86);
    let mut keys = Keys::default();
    (keys.blocked, keys.parked) = (7, 2);
    let tenancy = |fresh, aside| Tenancy { fresh, aside, ..Tenancy::default() };
    let partitions = vec![tenancy(10, 1), tenancy(20, 5)];
    let census = Census { mode: Mode::Ownership, partitions, ..Census::default() };

    let page = page(|metrics| {
        metrics.record_share(Some(share));
        metrics.record_keys(Some(keys));
        metrics.record_census(Some(&census));
        metrics.record_queue_depths(4, 9);
        metrics.record_oldest_lag(Some(Duration::from_millis(1_500)));
    });

    let shares = ["instances 3", "partitions_assigned 85", "partitions_fair 86"];
    assert_shows(&page, &shares);
    assert_shows(&page, &["keys_blocked 7", "keys_parked 2"]);
    assert_shows(&page, &["partitions_pending 36", "partition_pending_max 25"]);
    assert_shows(&page, &["hot_queue 4", "cold_queue 9", "taken_lag_seconds 1.5"]);
}

/// M6: what is not known is not 0.
#[test]
fn unknown_numbers_are_not_zero() {
    let page = page(|metrics| {
        metrics.record_share(Some(Share::default()));
        metrics.record_share(None);
        metrics.record_keys(None);
        metrics.record_census(None);
        metrics.record_oldest_lag(None);
    });

    assert_shows(&page, &["instances NaN", "partitions_assigned NaN", "partitions_fair NaN"]);
    assert_shows(&page, &["keys_blocked NaN", "keys_parked NaN", "taken_lag_seconds NaN"]);
    assert_shows(&page, &["partitions_pending NaN", "partition_pending_max NaN"]);
}

/// M6: where rows are claimed nothing is counted by partitions, which is not 0 while events wait.
#[test]
fn census_of_claims_tells_nothing_of_partitions() {
    let page = page(|metrics| {
        metrics.record_census(Some(&Census { mode: Mode::Claims, ..Census::default() }));
    });

    assert_shows(&page, &["partitions_pending NaN", "partition_pending_max NaN"]);
}

/// M1: every counter counts what it is called after.
#[test]
fn counters_count_what_they_are_called_after() {
    type Count = fn(&Metrics);
    let tell: [(&str, Count); 10] = [
        ("hot_enqueued_total", Metrics::increment_hot_enqueued),
        ("hot_dropped_total", Metrics::increment_hot_dropped),
        ("cold_enqueued_total", Metrics::increment_cold_enqueued),
        ("delivered_total", Metrics::increment_dispatch_success),
        ("failed_total", Metrics::increment_dispatch_failure),
        ("died_total", Metrics::increment_dispatch_dead),
        ("unanswered_total", Metrics::increment_unanswered),
        ("lost_leases_total", Metrics::increment_lost_lease),
        ("misplaced_total", Metrics::increment_misplaced),
        ("below_floor_total", Metrics::increment_below_floor),
    ];
    for (name, count) in tell {
        let page = page(count);

        let shown: Vec<&String> = page.iter().filter(|line| line.ends_with("_total 1")).collect();
        assert_eq!(shown, [&format!("{name} 1")]);
    }
}
