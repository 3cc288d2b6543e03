//! What a type says of itself, all attributes together.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, LitStr, Member, Result};

use crate::attribute::{Fact, Reader, Says, is_event};

/// What a type and its fields say, free of mistakes.
pub(crate) fn describe(input: &DeriveInput) -> Result<Vec<Fact>> {
    let mut reader = Reader::default();
    reader.read_type(&input.attrs);
    match &input.data {
        Data::Struct(data) => read_fields(&mut reader, &data.fields),
        Data::Enum(data) => refuse_variants(&mut reader, data),
        Data::Union(data) => {
            let said = "a union cannot be an event; use a struct or an enum";
            reader.mistakes.add(Error::new(data.union_token.span, said));
        }
    }
    refuse_lifetimes(&mut reader, input);
    demand_type(&mut reader, input);
    check_texts(&mut reader);
    check_repeated(&mut reader);
    reader.mistakes.none()?;
    Ok(reader.facts)
}

fn read_fields(reader: &mut Reader, fields: &Fields) {
    for (index, field) in fields.iter().enumerate() {
        let member = field.ident.clone().map_or_else(|| Member::from(index), Member::from);
        reader.read_field(field, &member);
    }
}

/// A value that only some variants have is not said by a field.
fn refuse_variants(reader: &mut Reader, data: &DataEnum) {
    let attributes = data.variants.iter().flat_map(|variant| {
        let fields = variant.fields.iter().flat_map(|field| &field.attrs);
        variant.attrs.iter().chain(fields)
    });
    for attribute in attributes.filter(|attribute| is_event(attribute)) {
        let said = "an enum says it on the type, for all variants, with an expression: \
                    `#[event(id = self.order_id())]`";
        reader.mistakes.add(Error::new(attribute.path().span(), said));
    }
}

fn refuse_lifetimes(reader: &mut Reader, input: &DeriveInput) {
    for parameter in input.generics.lifetimes() {
        let said =
            "an event cannot borrow: handlers get it long after it was written; use `String` or the like";
        reader.mistakes.add(Error::new(parameter.lifetime.span(), said));
    }
}

fn demand_type(reader: &mut Reader, input: &DeriveInput) {
    if !reader.names_type {
        let said = format!(
            "the event has no type, and the name in Rust is never taken for it; \
             write `#[event(type = \"{}\")]`",
            input.ident
        );
        reader.mistakes.add(Error::new(input.ident.span(), said));
    }
}

fn check_texts(reader: &mut Reader) {
    for fact in &reader.facts {
        let checked = match &fact.says {
            Says::Type(text) => check_text("the type", text, 128),
            Says::Aggregate(text) => check_text("the aggregate", text, 64),
            Says::Header(text, _) => check_text("the name of a header", text, 128),
            Says::Context(text, _) => check_text("the name of a context value", text, 128),
            _ => Ok(()),
        };
        if let Err(mistake) = checked {
            reader.mistakes.add(mistake);
        }
    }
}

/// The limits of the columns, as `EventBuilder` has them.
fn check_text(what: &str, literal: &LitStr, limit: usize) -> Result<()> {
    let text = literal.value();
    let length = text.chars().count();
    let wrong = if text.is_empty() {
        "must not be empty".to_owned()
    } else if length > limit {
        format!("has {length} characters, at most {limit} are allowed")
    } else if text.contains('\0') {
        "contains a NUL character, which databases cannot store".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(literal.span(), format!("{what} {wrong}")))
}

fn check_repeated(reader: &mut Reader) {
    let has_no_key = reader.facts.iter().any(|fact| matches!(fact.says, Says::NoKey));
    let mut seen = BTreeSet::new();
    for fact in &reader.facts {
        let subject = subject(&fact.says);
        if !seen.insert(subject.clone()) {
            reader.mistakes.add(Error::new(fact.span, format!("{subject} is said twice")));
        }
        if has_no_key && matches!(fact.says, Says::Key(_)) {
            reader.mistakes.add(Error::new(fact.span, "`key` and `no_key` exclude each other"));
        }
    }
}

/// What can be said only once.
fn subject(says: &Says) -> String {
    match says {
        Says::Type(_) => "`type`".to_owned(),
        Says::Aggregate(_) => "`aggregate`".to_owned(),
        Says::Codec(_) => "`codec`".to_owned(),
        Says::Id(_) => "`id`".to_owned(),
        Says::Key(_) => "`key`".to_owned(),
        Says::NoKey => "`no_key`".to_owned(),
        Says::Tenant(_) => "`tenant`".to_owned(),
        Says::Header(name, _) => format!("the header `{}`", name.value()),
        Says::Context(name, _) => format!("the context value `{}`", name.value()),
    }
}
