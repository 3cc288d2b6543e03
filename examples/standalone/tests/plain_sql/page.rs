//! The page of the guide for writers in other languages, cut into its statements.

const PAGE: &str = include_str!("../../../../docs/guide/plain-sql.md");

/// The databases that have statements of their own on the page, by their headings.
pub(crate) const DATABASES: [&str; 3] = ["PostgreSQL", "MySQL and MariaDB", "SQLite"];

/// A block of code of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) heading: &'static str,
    /// The database that it is for; none if it is for all.
    pub(crate) database: Option<&'static str>,
    pub(crate) language: &'static str,
    pub(crate) code: &'static str,
}

/// All blocks, in the order of the page.
pub(crate) fn blocks() -> Vec<Block> {
    let (mut heading, mut database) = ("", None);
    let mut blocks = Vec::new();
    let mut rest = PAGE;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(title) = line.strip_prefix("## ") {
            (heading, database) = (title, None);
        } else if let Some(title) = line.strip_prefix("### ") {
            assert!(DATABASES.contains(&title), "`{title}` is no database");
            database = Some(title);
        } else if let Some(language) = line.strip_prefix("```") {
            let (code, after) = rest.split_once("```\n").expect("the block ends");
            blocks.push(Block { heading, database, language, code });
            rest = after;
        }
    }
    blocks
}

/// The SQL for `database`, in the order of the page.
pub(crate) fn statements(database: &str) -> Vec<Block> {
    let is_for = |block: &Block| block.database.is_none_or(|name| name == database);
    blocks().into_iter().filter(|block| block.language == "sql" && is_for(block)).collect()
}

/// The first SQL under `heading` for `database`.
pub(crate) fn statement(database: &str, heading: &str) -> &'static str {
    let found = statements(database).into_iter().find(|block| block.heading == heading);
    found.unwrap_or_else(|| panic!("`{heading}` has no SQL for {database}")).code
}

/// The trigger on the table `orders`, and that table.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn trigger(database: &str) -> [&'static str; 2] {
    let triggers = statements(database).into_iter().filter(|block| block.heading == "Triggers");
    let [table, trigger] =
        triggers.map(|block| block.code).collect::<Vec<_>>().try_into().expect("two blocks");
    [table, trigger]
}

/// The line that is to be typed into a shell and begins with `program`.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn shell(program: &str) -> &'static str {
    let mut lines = blocks().into_iter().filter_map(|block| block.code.strip_prefix("$ "));
    lines.find(|line| line.starts_with(program)).expect("the page has such a line").trim_end()
}

/// Keys, their hashes and their partitions, as the table on the page has them.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn partitions() -> Vec<(&'static str, u32, u8)> {
    let rows = PAGE.split_once("| key | MurmurHash3 | partition |\n|---|---|---|\n").expect("the table").1;
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let [_, key, hash, partition, _] =
            row.split('|').collect::<Vec<_>>().try_into().expect("three cells");
        let hash = u32::from_str_radix(hash.trim().trim_matches('`'), 16).expect("a hash");
        (key.trim().trim_matches('`'), hash, partition.trim().parse().expect("a partition"))
    })
    .collect()
}
