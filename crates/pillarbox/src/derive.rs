//! What `#[derive(Event)]` calls. Not for use by hand: it changes without notice.

use std::fmt::Display;
use std::ops::Deref;

use crate::EventBuilder;

/// A value that is to be written as text: anything that is `Display`, or an `Option` of it.
///
/// `Option` is not `Display`, but one trait cannot be implemented for both. So there are two methods `text`: this type
/// has one if the value is `Display`; if not, the compiler goes on to what it dereferences to.
#[derive(Debug)]
pub struct Value<'a, T: ?Sized>(Other<'a, T>);

impl<'a, T: ?Sized> Value<'a, T> {
    /// Borrows the value.
    pub fn of(value: &'a T) -> Self {
        Self(Other(value))
    }
}

impl<T: Display + ?Sized> Value<'_, T> {
    /// The text.
    pub fn text(&self) -> Option<String> {
        Some(self.0.0.to_string())
    }
}

impl<'a, T: ?Sized> Deref for Value<'a, T> {
    type Target = Other<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A value that is not `Display` itself.
#[derive(Debug)]
pub struct Other<'a, T: ?Sized>(&'a T);

impl<T: ?Sized> Other<'_, T> {
    /// The text, if there is any.
    pub fn text(&self) -> Option<String>
    where
        T: Text,
    {
        self.0.text()
    }
}

/// What may have a text without being `Display`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither `Display` nor an `Option` of it",
    label = "cannot be written as text",
    note = "make a text of it in an expression on the type, as in `#[event(key = self.parts.join(\"-\"))]`"
)]
pub trait Text {
    /// The text, if there is any.
    fn text(&self) -> Option<String>;
}

impl<T: Display> Text for Option<T> {
    fn text(&self) -> Option<String> {
        self.as_ref().map(T::to_string)
    }
}

impl<T: Text + ?Sized> Text for &T {
    fn text(&self) -> Option<String> {
        T::text(self)
    }
}

/// Adds `text` to an event, if there is any.
pub fn set(
    event: EventBuilder,
    text: Option<String>,
    add: fn(EventBuilder, String) -> EventBuilder,
) -> EventBuilder {
    match text {
        Some(text) => add(event, text),
        None => event,
    }
}

/// Adds `text` to an event under a name, if there is any.
pub fn set_named(
    event: EventBuilder,
    name: &'static str,
    text: Option<String>,
    add: fn(EventBuilder, &'static str, String) -> EventBuilder,
) -> EventBuilder {
    match text {
        Some(text) => add(event, name, text),
        None => event,
    }
}
