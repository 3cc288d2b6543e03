//! Pages that say where something is: it is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const REQUIREMENTS: &str = "docs/requirements.md";
const NAMASTACK: &str = "docs/guide/coming-from-namastack.md";

/// The requirements that the page is about.
const IDS: [&str; 27] = [
    "L1", "L2", "L3", "L4", "L5", "L6", "T1", "T2", "T3", "T4", "T5", "W10", "X1", "X2", "X3", "D5", "D10",
    "D13", "K1", "K2", "K3", "K4", "M2", "M4", "M5", "M6", "Q1",
];

/// What the first words of a test's name stand for, as the page says.
const PLACES: [(&str, &str); 10] = [
    ("engine/", "crates/pillarbox/tests/engine/"),
    ("src/", "crates/pillarbox/src/"),
    ("macros/", "crates/pillarbox-macros-tests/tests/"),
    ("conformance/", "crates/pillarbox-testkit/src/conformance/"),
    ("testkit/", "crates/pillarbox-testkit/src/"),
    ("traces/", "crates/pillarbox-opentelemetry/tests/traces/"),
    ("any/", "crates/stores/any/tests/any/"),
    ("cli/", "crates/pillarbox-cli/tests/"),
    ("samples/", "examples/"),
    ("sinks/", "crates/sinks/"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of a page that are not in a program.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_program = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_program ^= is_fence;
        !is_program && !is_fence
    })
}

/// The words in backticks that name a test: its place and module, and its name.
fn tests(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = prose(page).flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted
        .filter(|word| PLACES.iter().any(|(place, _)| word.starts_with(place)))
        .filter_map(|word| word.split_once("::"))
}

/// The source of a module.
fn source(module: &str) -> Option<String> {
    let (place, path) = PLACES.iter().find(|(place, _)| module.starts_with(place))?;
    fs::read_to_string(root().join(format!("{path}{}.rs", module.strip_prefix(place)?))).ok()
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// L1 … Q1: the page about requirements has all that it is about, and tests that exist.
#[test]
fn requirements_name_tests_that_exist() {
    let page = page(REQUIREMENTS);
    let named =
        BTreeSet::from_iter(prose(&page).filter_map(|line| line.strip_prefix("| ")?.split(' ').next()));
    let missing = |(module, name): &(&str, &str)| {
        let is_there =
            |source: String| ["(", "<"].iter().any(|end| source.contains(&format!("fn {name}{end}")));
        !source(module).is_some_and(is_there)
    };

    assert_eq!(IDS.into_iter().filter(|id| !named.contains(id)).collect::<Vec<_>>(), [""; 0]);
    assert!(tests(&page).count() > 100, "{}", tests(&page).count());
    assert_eq!(tests(&page).filter(missing).collect::<Vec<_>>(), []);
}

/// M4: the page for those who come from Namastack has every code block of its documentation, once.
#[test]
fn every_code_block_has_a_line() {
    let page = page(NAMASTACK);
    let (_, lines) = page.split_once("\n## Every code block\n").unwrap();
    let (lines, _) = lines.split_once("\n## ").unwrap();
    let (mut blocks, mut without) = (Vec::new(), 0);
    for line in lines.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let numbers: Vec<u32> = cells[0].split(", ").filter_map(|number| number.parse().ok()).collect();
        assert_eq!(cells.len(), 4, "{line}");
        assert!(numbers.is_empty() || cells[3].contains("](") || cells[3].starts_with("none: "), "{line}");
        without += if cells[3].starts_with("none: ") { numbers.len() } else { 0 };
        blocks.extend(numbers);
    }

    assert_eq!(blocks, Vec::from_iter(1..=82));
    assert!(lines.contains(&format!("{} have a counterpart", 82 - without)), "{without} have none");
    assert!(lines.contains(&format!("and {without} have none")), "{without} have none");
}

/// Links of both pages lead to pages and headings that exist.
#[test]
fn links_lead_somewhere() {
    for path in [REQUIREMENTS, NAMASTACK] {
        let text = page(path);
        let links =
            prose(&text).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = root().join(path).with_file_name(file);
            let target = if file.is_empty() { root().join(path) } else { target };
            let target = fs::read_to_string(target).unwrap_or_else(|error| panic!("{path}: {link}: {error}"));
            let mut headings = prose(&target).filter_map(|line| line.strip_prefix('#'));
            let is_there =
                heading.is_empty() || headings.any(|line| anchor(line.trim_matches('#')) == heading);
            assert!(is_there, "{path} links to {link}");
        }
    }
}
