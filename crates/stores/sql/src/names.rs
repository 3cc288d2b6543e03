//! The names of tables.

use std::borrow::Cow;
use std::sync::Arc;

use pillarbox::store::StoreError;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// The longest schema or prefix. Index names get the prefix too, and PostgreSQL cuts names at 63 bytes.
const LONGEST: usize = 32;

/// What every name of ours begins with.
const OURS: &str = "outbox_";

/// Words that PostgreSQL 15 to 18 does not take for the name of a schema. (MySQL takes every word before a dot.)
const RESERVED: &str = include_str!("names/reserved.txt");

/// Where the tables of an outbox are: in which schema, and with what before their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    schema: Option<String>,
    prefix: String,
    is_quoted: bool,
}

impl Names {
    /// Tables in `schema` (without one, where the connection looks first) whose names begin with `prefix`.
    ///
    /// Both are ASCII letters, digits and underscores, no digit first, at most 32 of them. They become part of
    /// the SQL, so anything else is refused.
    pub fn new(schema: Option<&str>, prefix: &str) -> Result<Self, StoreError> {
        if let Some(schema) = schema {
            check("schema", schema)?;
            if schema.is_empty() {
                return Err(StoreError::Config("the schema is empty; leave it out, or give a name".into()));
            }
        }
        check("prefix", prefix)?;
        Ok(Self { schema: schema.map(str::to_owned), prefix: prefix.to_owned(), is_quoted: false })
    }

    /// The same names as PostgreSQL has to read them: those that it would take for others stand in double quotes,
    /// because they have capital letters (which it takes for small ones) or are words of its own.
    pub fn quoted(&self) -> Self {
        Self { is_quoted: true, ..self.clone() }
    }

    /// The schema, if one was given.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The schema as it stands in SQL.
    pub fn schema_in_sql(&self) -> Option<Cow<'_, str>> {
        self.schema.as_deref().map(|schema| self.in_sql(schema))
    }

    /// What stands before the name of every table; may be empty.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The full name of a table, as it stands in SQL: `shop.eu_outbox_event`.
    pub fn table(&self, name: &str) -> String {
        let table = self.prefixed(name);
        match self.schema_in_sql() {
            Some(schema) => format!("{schema}.{table}"),
            None => table,
        }
    }

    fn prefixed(&self, name: &str) -> String {
        self.in_sql(&format!("{}{name}", self.prefix)).into_owned()
    }

    fn in_sql<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.is_quoted { quoted(name) } else { Cow::Borrowed(name) }
    }

    /// `sql` with the prefix before every word that begins with `outbox_`, and with the schema before those of
    /// them that are in `qualified`: tables and functions, but not indexes, which follow their table.
    pub fn fill(&self, sql: &'static str, qualified: &[&str]) -> SqlStr {
        if self.schema.is_none() && self.prefix.is_empty() {
            return sql.into_sql_str();
        }
        AssertSqlSafe(Arc::<str>::from(self.filled(sql, qualified))).into_sql_str()
    }

    fn filled(&self, sql: &str, qualified: &[&str]) -> String {
        let mut filled = String::with_capacity(sql.len() + 256);
        let mut rest = sql;
        while let Some(word_at) = rest.find(is_word) {
            let (before, from_word) = rest.split_at(word_at);
            let end = from_word.find(|character| !is_word(character)).unwrap_or(from_word.len());
            let (word, after) = from_word.split_at(end);
            filled.push_str(before);
            match word {
                _ if qualified.contains(&word) => filled.push_str(&self.table(word)),
                _ if word.starts_with(OURS) => filled.push_str(&self.prefixed(word)),
                _ => filled.push_str(word),
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }
}

/// A name as it stands in the SQL of PostgreSQL: in double quotes, unless it means the same without.
pub fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain = name.starts_with(|first: char| first == '_' || first.is_ascii_lowercase())
        && name.chars().all(|character| is_word(character) && !character.is_ascii_uppercase());
    if is_plain && !RESERVED.lines().any(|word| word == name) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn check(what: &str, name: &str) -> Result<(), StoreError> {
    let starts_well = !name.starts_with(|character: char| character.is_ascii_digit());
    if name.len() <= LONGEST && starts_well && name.chars().all(is_word) {
        return Ok(());
    }
    Err(StoreError::Config(format!(
        "the {what} `{name}` is not a name: use up to {LONGEST} ASCII letters, digits and underscores, no digit first"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "CREATE INDEX outbox_event_dead ON outbox_event (seq); SELECT my_outbox_event";
    const TABLES: [&str; 1] = ["outbox_event"];

    fn filled(schema: Option<&str>, prefix: &str) -> String {
        Names::new(schema, prefix).unwrap().fill(SQL, &TABLES).as_str().to_owned()
    }

    /// S6: tables and indexes get the prefix, tables the schema, and other words stay.
    #[test]
    fn names_get_schema_and_prefix() {
        assert_eq!(filled(None, ""), SQL);
        assert_eq!(
            filled(None, "eu_"),
            "CREATE INDEX eu_outbox_event_dead ON eu_outbox_event (seq); SELECT my_outbox_event"
        );
        assert_eq!(
            filled(Some("shop"), ""),
            "CREATE INDEX outbox_event_dead ON shop.outbox_event (seq); SELECT my_outbox_event"
        );
        assert_eq!(
            filled(Some("shop"), "eu_"),
            "CREATE INDEX eu_outbox_event_dead ON shop.eu_outbox_event (seq); SELECT my_outbox_event"
        );
    }

    /// S6: names that PostgreSQL would take for others stand in quotes, and no others do.
    #[test]
    fn names_are_quoted_where_they_must_be() {
        let table = |schema, prefix| Names::new(Some(schema), prefix).unwrap().quoted().table("outbox_event");

        assert_eq!(table("shop", "eu_"), "shop.eu_outbox_event");
        assert_eq!(table("Orders", ""), "\"Orders\".outbox_event");
        assert_eq!(table("order", "Eu_"), "\"order\".\"Eu_outbox_event\"");
        let indexes = Names::new(None, "Eu_").unwrap().quoted();
        assert_eq!(
            indexes.fill("DROP INDEX outbox_event_dead", &TABLES).as_str(),
            "DROP INDEX \"Eu_outbox_event_dead\""
        );
        assert_eq!(Names::new(Some("Orders"), "").unwrap().table("outbox_event"), "Orders.outbox_event");
    }

    /// A name of somebody else is quoted whatever is in it.
    #[test]
    fn any_name_can_be_quoted() {
        for (name, expected) in [
            ("shop", "shop"),
            ("shop-app", "\"shop-app\""),
            ("a\"b", "\"a\"\"b\""),
            ("1st", "\"1st\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }

    /// S6: what could end a name and begin a statement is refused, and the error names it.
    #[test]
    fn names_that_are_none_are_refused() {
        for wrong in ["shop; DROP TABLE orders", "a.b", "1st", "\"shop\"", "größe", &"x".repeat(33)] {
            let as_schema = Names::new(Some(wrong), "").unwrap_err().to_string();
            let as_prefix = Names::new(None, wrong).unwrap_err().to_string();

            assert!(as_schema.contains(&format!("the schema `{wrong}`")), "{as_schema}");
            assert!(as_prefix.contains(&format!("the prefix `{wrong}`")), "{as_prefix}");
        }
        assert!(Names::new(Some(""), "").is_err());
    }
}
