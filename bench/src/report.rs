//! The results: as a table for people, as JSON for programs.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// One result.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    store: &'static str,
    case: String,
    value: f64,
    unit: &'static str,
    raw: f64,
    ratio: f64,
    #[serde(skip)]
    goal: Option<Goal>,
}

/// What a result has to show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The ratio is at least this.
    AtLeast(f64),
    /// The ratio is at most this.
    AtMost(f64),
    /// The value itself is below this.
    Below(f64),
}

impl Line {
    /// `value` of a case, and what it is measured against.
    pub(crate) fn new(
        store: &'static str,
        case: impl Into<String>,
        value: f64,
        unit: &'static str,
        raw: f64,
    ) -> Self {
        Self { store, case: case.into(), value, unit, raw, ratio: value / raw, goal: None }
    }

    pub(crate) fn goal(self, goal: impl Into<Option<Goal>>) -> Self {
        Self { goal: goal.into(), ..self }
    }

    /// Whether the goal is met; true where there is none. A result that is no number meets nothing.
    fn is_met(&self) -> bool {
        match self.goal {
            None => true,
            Some(Goal::AtLeast(least)) => self.ratio >= least,
            Some(Goal::AtMost(most)) => self.ratio <= most,
            Some(Goal::Below(limit)) => self.value < limit,
        }
    }

    fn cells(&self) -> [String; 8] {
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtLeast(least)) => format!("ratio ≥ {least}"),
            Some(Goal::AtMost(most)) => format!("ratio ≤ {most}"),
            Some(Goal::Below(limit)) => format!("value < {limit}"),
        };
        let met = match self.goal {
            None => "",
            Some(_) if self.is_met() => "met",
            Some(_) => "NOT MET",
        };
        [
            self.store.to_owned(),
            self.case.clone(),
            number(self.value),
            self.unit.to_owned(),
            number(self.raw),
            format!("{:.2}", self.ratio),
            goal,
            met.to_owned(),
        ]
    }
}

/// All results of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn extend(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.lines.extend(lines);
    }

    pub(crate) fn all_goals_met(&self) -> bool {
        self.lines.iter().all(Line::is_met)
    }

    /// Prints a table.
    pub(crate) fn print(&self, out: &mut impl Write) -> Result<()> {
        let titles = ["store", "case", "value", "unit", "raw", "ratio", "goal", ""].map(str::to_owned);
        let rows: Vec<[String; 8]> =
            std::iter::once(titles).chain(self.lines.iter().map(Line::cells)).collect();
        let widths: [usize; 8] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        });
        for [store, case, value, unit, raw, ratio, goal, met] in &rows {
            let [w_store, w_case, w_value, w_unit, w_raw, w_ratio, w_goal, _] = widths;
            let line = format!(
                "{store:w_store$}  {case:w_case$}  {value:>w_value$}  {unit:w_unit$}  {raw:>w_raw$}  \
                 {ratio:>w_ratio$}  {goal:w_goal$}  {met}"
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes an array of objects.
    pub(crate) fn write_json(&self, mut out: impl Write) -> Result<()> {
        serde_json::to_writer_pretty(&mut out, &self.lines)?;
        writeln!(out)?;
        out.flush()?;
        Ok(())
    }
}

/// A number with as many decimals as it deserves, and its thousands apart.
fn number(value: f64) -> String {
    if !value.is_finite() || value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    grouped(value.round() as u64)
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_look_at_the_ratio_or_at_the_value() {
        let line = || Line::new("sqlite", "drain", 70.0, "events/s", 100.0);

        assert!(line().is_met());
        assert!(line().goal(Goal::AtLeast(0.6)).is_met());
        assert!(!line().goal(Goal::AtLeast(0.8)).is_met());
        assert!(!line().goal(Goal::AtMost(0.6)).is_met());
        assert!(line().goal(Goal::Below(70.1)).is_met());
    }

    #[test]
    fn no_number_meets_no_goal() {
        let line = Line::new("sqlite", "drain", f64::NAN, "events/s", 100.0).goal(Goal::AtMost(1.2));

        assert!(!line.is_met());
    }

    #[test]
    fn json_has_the_six_fields() {
        let mut report = Report::default();
        report.extend([Line::new("sqlite", "write", 3.0, "µs", 2.0).goal(Goal::AtMost(1.15))]);

        let mut out = Vec::new();
        report.write_json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();

        let expected = serde_json::json!([
            {"store": "sqlite", "case": "write", "value": 3.0, "unit": "µs", "raw": 2.0, "ratio": 1.5}
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(number(1_234_567.4), "1,234,567");
        assert_eq!(number(2.345), "2.3");
    }
}
