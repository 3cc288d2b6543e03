//! Where an event goes, as a text with places that the event fills.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::spelling::nearest;
use crate::{Event, GLOBAL};

/// A text with places that are filled from an event: the topic, subject, routing key or path that it goes to.
///
/// | place | filled with |
/// |---|---|
/// | `{event_id}`, `{event_type}` | the event's id and type |
/// | `{aggregate_type}`, `{aggregate_id}` | what it belongs to, if it names that |
/// | `{key}` | its key, if it has one |
/// | `{tenant_id}` | its tenant, if it has one |
/// | `{header.NAME}` | the header `NAME`, if it is there |
///
/// `{tenant_id|public}` is `public` for events without a tenant. `{{` and `}}` stand for braces.
///
/// ```
/// use pillarbox::{Event, Template};
///
/// let topic: Template = "shop.{tenant_id|public}.{event_type}".parse()?;
/// let event = Event::of_json("OrderPlaced", "{}")?;
/// assert_eq!(topic.fill(&event)?, "shop.public.OrderPlaced");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place { of: Field, otherwise: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    EventId,
    EventType,
    AggregateType,
    AggregateId,
    Key,
    TenantId,
    Header(String),
}

/// What places can be named, but for headers.
const FIELDS: [(&str, Field); 6] = [
    ("event_id", Field::EventId),
    ("event_type", Field::EventType),
    ("aggregate_type", Field::AggregateType),
    ("aggregate_id", Field::AggregateId),
    ("key", Field::Key),
    ("tenant_id", Field::TenantId),
];
const HEADER: &str = "header.";

/// A text that is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It names a place that there is not.
    #[error("`{{{name}}}` in `{template}` is not known; {}known are {}", meant(.nearest), places())]
    UnknownPlace {
        /// The whole text.
        template: String,
        /// What stands between the braces.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A brace has no partner.
    #[error(
        "a brace in `{template}` has no partner; write `{{{{` or `}}}}` for a brace that stands for itself"
    )]
    LoneBrace {
        /// The whole text.
        template: String,
    },
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
}

fn meant(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("did you mean `{{{name}}}`? "))
}

fn places() -> String {
    let names = FIELDS.iter().map(|(name, _)| format!("`{{{name}}}`"));
    names.chain(["`{header.NAME}`".to_owned()]).collect::<Vec<_>>().join(", ")
}

/// An event that lacks what a template asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{template}` cannot be filled: the event has no {lacks}; `{{{place}|…}}` gives a value for those that have none"
)]
pub struct Unfilled {
    /// The template.
    pub template: String,
    /// What the event does not have, in words.
    pub lacks: String,
    /// The name of the place.
    pub place: String,
}

impl Template {
    /// The text for this event, or what it lacks.
    pub fn fill(&self, event: &Event) -> Result<String, Unfilled> {
        self.fill_with(event, Cow::Borrowed)
    }

    /// The text for this event, each value that comes from it passed through `escape`.
    pub fn fill_with<'e>(
        &self,
        event: &'e Event,
        escape: impl Fn(&'e str) -> Cow<'e, str>,
    ) -> Result<String, Unfilled> {
        let mut filled = String::with_capacity(self.text.len() + 32);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place { of, otherwise } => match (of.value(event), otherwise) {
                    (Some(value), _) => filled.push_str(&escape(value)),
                    (None, Some(otherwise)) => filled.push_str(otherwise),
                    (None, None) => return Err(self.unfilled(of)),
                },
            }
        }
        Ok(filled)
    }

    /// The text, if it is the same for all events.
    pub fn as_constant(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn unfilled(&self, of: &Field) -> Unfilled {
        Unfilled { template: self.text.clone(), lacks: of.in_words(), place: of.to_string() }
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        let lone_brace = || TemplateError::LoneBrace { template: text.to_owned() };
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(lone_brace());
            }
            let (place, after) = rest.split_once('}').ok_or_else(lone_brace)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::place(place, text)?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self { text: text.to_owned(), pieces })
    }
}

impl Piece {
    fn place(place: &str, template: &str) -> Result<Self, TemplateError> {
        let (name, otherwise) = match place.split_once('|') {
            Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
            None => (place, None),
        };
        let of = Field::named(name).ok_or_else(|| TemplateError::UnknownPlace {
            template: template.to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, &FIELDS.each_ref().map(|(name, _)| *name)),
        })?;
        Ok(Self::Place { of, otherwise })
    }
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        if let Some(header) = name.strip_prefix(HEADER).filter(|header| !header.is_empty()) {
            return Some(Self::Header(header.to_owned()));
        }
        FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone())
    }

    fn value<'e>(&self, event: &'e Event) -> Option<&'e str> {
        match self {
            Self::EventId => Some(event.id()),
            Self::EventType => Some(event.event_type()),
            Self::AggregateType => Some(event.aggregate_type()).filter(|name| *name != GLOBAL),
            Self::AggregateId => event.aggregate_id(),
            Self::Key => event.key(),
            Self::TenantId => event.tenant_id(),
            Self::Header(name) => event.headers().get(name),
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Header(name) => format!("header `{name}`"),
            Self::TenantId => "tenant".to_owned(),
            other => other.to_string().replace('_', " "),
        }
    }
}

impl fmt::Display for Field {
    /// The name between the braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, FIELDS.iter().find(|(_, field)| field == self)) {
            (Self::Header(name), _) => write!(f, "{HEADER}{name}"),
            (_, Some((name, _))) => f.write_str(name),
            (_, None) => Ok(()),
        }
    }
}

impl fmt::Display for Template {
    /// The text as it was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_placed() -> Event {
        Event::builder("OrderPlaced")
            .id("01")
            .aggregate("Order", "order-17")
            .tenant("acme")
            .header("region", "eu/west")
            .json_text("{}")
            .build()
            .unwrap()
    }

    fn filled(template: &str, event: &Event) -> String {
        template.parse::<Template>().unwrap().fill(event).unwrap()
    }

    /// K1: every place is filled from the event.
    #[test]
    fn every_place_is_filled() {
        let all = "{event_id} {event_type} {aggregate_type} {aggregate_id} {key} {tenant_id} {header.region}";

        assert_eq!(filled(all, &order_placed()), "01 OrderPlaced Order order-17 order-17 acme eu/west");
    }

    /// K1: what an event lacks is named, unless the template has a value for it.
    #[test]
    fn missing_value_is_named() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();
        for (place, lacks) in [
            ("aggregate_type", "aggregate type"),
            ("aggregate_id", "aggregate id"),
            ("key", "key"),
            ("tenant_id", "tenant"),
            ("header.region", "header `region`"),
        ] {
            let template: Template = format!("shop.{{{place}}}").parse().unwrap();

            let error = template.fill(&event).unwrap_err().to_string();

            let expected = format!(
                "`shop.{{{place}}}` cannot be filled: the event has no {lacks}; `{{{place}|…}}` gives a value for \
                 those that have none"
            );
            assert_eq!(error, expected);
            assert_eq!(filled(&format!("shop.{{{place}|none}}"), &event), "shop.none");
        }
    }

    /// K1: braces can stand for themselves, and a lone one is refused.
    #[test]
    fn braces_come_in_pairs() {
        assert_eq!(filled("{{{event_type}}}", &order_placed()), "{OrderPlaced}");
        for lone in ["{", "}", "a{b", "a}b", "{event_type", "{{}"] {
            assert!(matches!(lone.parse::<Template>(), Err(TemplateError::LoneBrace { .. })), "{lone}");
        }
        assert_eq!("".parse::<Template>(), Err(TemplateError::Empty));
    }

    /// K1: a misspelt place is answered with the right one.
    #[test]
    fn misspelt_place_is_answered() {
        let error = "orders.{event_typ}".parse::<Template>().unwrap_err().to_string();

        assert_eq!(
            error,
            "`{event_typ}` in `orders.{event_typ}` is not known; did you mean `{event_type}`? known are `{event_id}`, \
             `{event_type}`, `{aggregate_type}`, `{aggregate_id}`, `{key}`, `{tenant_id}`, `{header.NAME}`"
        );
        assert!("{header.}".parse::<Template>().is_err());
    }

    /// K1: values can be escaped, the text around them stays.
    #[test]
    fn values_are_escaped() {
        let template: Template = "/hooks/{header.region}".parse().unwrap();

        let filled = template.fill_with(&order_placed(), |value| value.replace('/', "%2F").into());

        assert_eq!(filled.unwrap(), "/hooks/eu%2Fwest");
    }

    /// K1: a template without places is known to be the same for all.
    #[test]
    fn constants_are_known() {
        assert_eq!("orders".parse::<Template>().unwrap().as_constant(), Some("orders"));
        assert_eq!("orders.{key}".parse::<Template>().unwrap().as_constant(), None);
    }
}
