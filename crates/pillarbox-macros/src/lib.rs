#![doc = include_str!("../README.md")]

mod attribute;
mod description;
mod expansion;
mod mistakes;
mod word;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

#[doc = include_str!("event.md")]
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expansion::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}
