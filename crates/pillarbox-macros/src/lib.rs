//! `#[derive(Event)]`: a type of yours says once what it is called as an event, and what it belongs to.
//!
//! Use it through `pillarbox`, where it stands beside the struct of the same name.
//!
//! ```
//! use pillarbox::Event;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Event)]
//! #[event(type = "OrderPlaced", aggregate = "Order", header("source" = "web"))]
//! struct OrderPlaced {
//!     #[event(id)]
//!     order_id: u64,
//!     #[event(context)]
//!     region: Option<String>,
//! }
//!
//! let placed = OrderPlaced { order_id: 17, region: Some("eu".into()) };
//! let event = Event::of(&placed).build()?;
//! assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPlaced", "Order"));
//! assert_eq!((event.key(), event.context().get("region")), (Some("17"), Some("eu")));
//! # Ok::<(), pillarbox::EventError>(())
//! ```
//!
//! | on the type | on a field | sets |
//! |---|---|---|
//! | `type = "OrderPlaced"` | | the event type, 1 to 128 characters; the one thing that must be said |
//! | `aggregate = "Order"` | | the aggregate type, 1 to 64 characters; `__GLOBAL__` if nothing is said |
//! | `id = self.order.id` | `id` | the aggregate id |
//! | `key = self.customer()` | `key` | the key; the aggregate id if nothing is said |
//! | `no_key` | | that there is no key |
//! | `tenant = self.shop` | `tenant` | the tenant |
//! | `header("source" = "web", "lang" = self.lang)` | `header`, `header = "source"` | headers; that of a field is called like the field if no name is given |
//! | `context("region" = self.region)` | `context`, `context = "region"` | context values, likewise |
//! | `codec = MessagePack` | | how the payload is encoded; `pillarbox::Json` if nothing is said |

mod attribute;
mod description;
mod expansion;
mod mistakes;
mod word;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Implements `DomainEvent` for a struct or an enum.
///
/// ```
/// use pillarbox::{Event, IntoEvent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(type = "OrderChanged", aggregate = "Order", id = self.order_id(), no_key)]
/// enum OrderChanged {
///     Paid { order_id: u64 },
///     Shipped { order_id: u64, parcel: String },
/// }
///
/// impl OrderChanged {
///     fn order_id(&self) -> u64 {
///         match self {
///             Self::Paid { order_id } | Self::Shipped { order_id, .. } => *order_id,
///         }
///     }
/// }
///
/// let event = OrderChanged::Paid { order_id: 17 }.into_event()?;
/// assert_eq!((event.aggregate_id(), event.key()), (Some("17"), None));
/// # Ok::<(), pillarbox::EventError>(())
/// ```
///
/// The attributes are listed in the [crate's documentation](crate). Values are all that is `Display`, or an `Option` of
/// it: what is `None` is not set. Expressions may use `self`. What the event becomes is checked when it is built, and
/// what is set by hand on `Event::of` wins.
///
/// An enum says everything on the type. Type parameters are passed on with the bounds that the type gives them;
/// lifetimes are refused, for an event outlives what it could borrow from.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expansion::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}
