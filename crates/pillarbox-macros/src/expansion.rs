//! The code that is generated.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{DeriveInput, LitStr, Result};

use crate::attribute::{Fact, Says, Value};
use crate::description::describe;

/// The implementation of `DomainEvent`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let facts = describe(input)?;
    let constants = facts.iter().filter_map(constant);
    let codec = facts.iter().find_map(codec).unwrap_or_else(|| quote!(::pillarbox::Json));
    let describe = describe_method(&facts);
    let ident = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::pillarbox::DomainEvent for #ident #ty_generics #where_clause {
            #(#constants)*
            type Codec = #codec;
            #describe
        }
    })
}

fn constant(fact: &Fact) -> Option<TokenStream> {
    match &fact.says {
        Says::Type(text) => Some(quote!(const EVENT_TYPE: &'static str = #text;)),
        Says::Aggregate(text) => Some(quote!(const AGGREGATE_TYPE: &'static str = #text;)),
        _ => None,
    }
}

fn codec(fact: &Fact) -> Option<TokenStream> {
    match &fact.says {
        Says::Codec(codec) => Some(codec.to_token_stream()),
        _ => None,
    }
}

fn describe_method(facts: &[Fact]) -> Option<TokenStream> {
    // Of mixed site, so that expressions of the user's do not see it; and a name that no constant of his has, for that
    // would be a pattern here.
    let event = Ident::new("__event", Span::mixed_site());
    let mut steps = facts.iter().filter_map(|fact| step(fact, &event)).peekable();
    steps.peek()?;
    Some(quote! {
        fn describe(&self, #event: ::pillarbox::EventBuilder) -> ::pillarbox::EventBuilder {
            #(let #event = #steps;)*
            #event
        }
    })
}

/// What one fact adds to the event.
fn step(fact: &Fact, event: &Ident) -> Option<TokenStream> {
    match &fact.says {
        Says::Id(value) => Some(set(event, value, "aggregate_id")),
        Says::Key(value) => Some(set(event, value, "key")),
        Says::NoKey => Some(quote!(#event.no_key())),
        Says::Tenant(value) => Some(set(event, value, "tenant")),
        Says::Header(name, value) => Some(set_named(event, name, value, "header")),
        Says::Context(name, value) => Some(set_named(event, name, value, "context")),
        Says::Type(_) | Says::Aggregate(_) | Says::Codec(_) => None,
    }
}

fn set(event: &Ident, value: &Value, setter: &str) -> TokenStream {
    let (text, setter) = (text(value), Ident::new(setter, Span::call_site()));
    quote!(::pillarbox::derive::set(#event, #text, ::pillarbox::EventBuilder::#setter))
}

fn set_named(event: &Ident, name: &LitStr, value: &Value, setter: &str) -> TokenStream {
    let (text, setter) = (text(value), Ident::new(setter, Span::call_site()));
    quote!(::pillarbox::derive::set_named(#event, #name, #text, ::pillarbox::EventBuilder::#setter))
}

/// The text of a value; an error about it points at the value.
fn text(Value { place, span }: &Value) -> TokenStream {
    let there = Span::call_site().located_at(*span);
    quote_spanned!(there=> ::pillarbox::derive::Value::of(&#place).text())
}
