//! The closing table.

use std::fmt::Write;

use super::ledger::Ledger;
use super::shop::ATTEMPTS;
use crate::figure;

/// The ledger as people read it; `kept` is the file to look into afterwards, if it stays.
pub(super) fn table(ledger: &Ledger, kept: Option<&str>) -> Result<String, std::fmt::Error> {
    let mut table = String::new();
    writeln!(table)?;
    for (label, value, remark) in rows(ledger, kept) {
        writeln!(table, "  {label:<12} {value:>10}   {remark}")?;
    }
    writeln!(table, "\n{}", verdict(ledger))?;
    Ok(table)
}

fn rows(ledger: &Ledger, kept: Option<&str>) -> Vec<(&'static str, String, String)> {
    let crashed = ledger.crashes > 0;
    let ghosts = match ledger.ghosts {
        0 => "nothing of them was delivered".to_owned(),
        ghosts => format!("but {} went out all the same", figure::events(ghosts)),
    };
    let dead = match kept {
        Some(file) => format!("failed {ATTEMPTS} times; see `pillarbox dead list --db {file}`"),
        None => format!("failed {ATTEMPTS} times, kept for an operator"),
    };
    let duplicates = match (ledger.duplicates, ledger.unexplained) {
        (0, _) => "nothing came twice".to_owned(),
        (_, 0) => "delivered, then killed before that was recorded; same event id".to_owned(),
        (_, unexplained) => format!("{} of them without a crash", figure::count(unexplained)),
    };
    let lost = match ledger.lost {
        0 => "every committed order's event is delivered or dead",
        _ => "missing, still pending, or done without a delivery",
    };
    let mut rows = vec![
        ("written", figure::count(ledger.written), "orders committed, each with its event".to_owned()),
        ("rolled back", figure::count(ledger.rolled_back), ghosts),
        ("delivered", figure::count(ledger.delivered), "events that a listener has served".to_owned()),
        ("retried", figure::count(ledger.retried), "calls of a listener after a failure".to_owned()),
        ("dead", figure::count(ledger.dead), dead),
        ("duplicates", figure::count(ledger.duplicates), duplicates),
        ("lost", figure::count(ledger.lost), lost.to_owned()),
    ];
    if crashed {
        rows.push((
            "killed",
            figure::count(u64::from(ledger.crashes)),
            "by SIGKILL, in the middle".to_owned(),
        ));
    }
    if let Some(latency) = ledger.latency {
        let outage = if crashed { ", outages included" } else { "" };
        rows.push(("latency p50", figure::time(latency.p50()), "from commit to listener".to_owned()));
        rows.push(("latency p99", figure::time(latency.p99()), format!("from commit to listener{outage}")));
    }
    rows
}

fn verdict(ledger: &Ledger) -> String {
    if !ledger.balanced {
        let Ledger { lost, ghosts, unexplained, unaccounted, .. } = ledger;
        return format!(
            "The ledger does NOT balance: {lost} lost, {ghosts} ghosts, {unexplained} duplicates without a crash, \
             {unaccounted} orders neither committed nor rolled back."
        );
    }
    format!(
        "The ledger balances: {} written = {} delivered + {} dead.",
        figure::count(ledger.written),
        figure::count(ledger.delivered),
        figure::count(ledger.dead)
    )
}
