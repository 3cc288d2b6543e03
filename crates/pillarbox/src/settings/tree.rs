//! Options in tables, whatever format they were written in.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::option::OPTIONS;
use super::value::Raw;
use super::{Origin, Settings, SettingsError, hint_for};

/// A value, or a table of them.
pub(super) enum Node {
    Leaf(Raw),
    Table(Vec<Entry>),
}

/// A name, what it stands for, and where both begin in their text.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) name_at: usize,
    pub(super) node: Node,
    pub(super) node_at: usize,
}

/// Takes the options of a table and of those in it; `origin` says where a place in the text is.
pub(super) fn take_all(
    settings: &mut Settings,
    above: &str,
    table: Vec<Entry>,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<(), SettingsError> {
    for Entry { name, name_at, node, node_at } in table {
        let name = format!("{above}{name}");
        let unknown = |hint: String| SettingsError::Unknown {
            name: name.escape_debug().to_string(),
            origin: origin(name_at),
            hint,
        };
        if let Some(option) = OPTIONS.iter().find(|option| option.name == name) {
            let raw = match node {
                Node::Leaf(raw) => raw,
                Node::Table(_) => Raw::Other("table"),
            };
            settings.insert(option, raw, origin(node_at))?;
            continue;
        }
        let within = format!("{name}.");
        let is_known = OPTIONS.iter().any(|option| option.name.starts_with(&within));
        match node {
            // Tables that others have are looked into, so that the answer is about an option.
            Node::Table(table) if is_known || !table.is_empty() => {
                take_all(settings, &within, table, origin)?
            }
            _ if is_known => {
                return Err(unknown(format!("it is a table of options, and stands as `[{name}]`")));
            }
            _ => return Err(unknown(hint_for(&name, str::to_owned))),
        }
    }
    Ok(())
}

/// As a part of a configuration of yours, in any format.
impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Node::Table(table) = Node::deserialize(deserializer)? else {
            return Err(de::Error::custom("the options of an outbox must be a table"));
        };
        let mut settings = Self::default();
        take_all(&mut settings, "", table, &|_| Origin::Embedded).map_err(de::Error::custom)?;
        Ok(settings)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of options")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Flag(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Integer { text: number.to_string(), value: Some(number) }))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Integer { text: number.to_string(), value: i64::try_from(number).ok() }))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Raw::Other("null")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(match item {
                Node::Leaf(raw) => raw,
                Node::Table(_) => Raw::Other("table"),
            });
        }
        Ok(Node::Leaf(Raw::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut table = Vec::new();
        while let Some((name, node)) = entries.next_entry()? {
            table.push(Entry { name, name_at: 0, node, node_at: 0 });
        }
        Ok(Node::Table(table))
    }
}
