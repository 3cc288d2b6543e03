//! Reading `#[event(...)]`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, Field, LitStr, Member, Result, Token, TypePath, parenthesized};

use crate::mistakes::Mistakes;
use crate::word::{self, ON_FIELD, ON_TYPE};

/// One thing that an attribute says.
pub(crate) struct Fact {
    /// Where it is said.
    pub(crate) span: Span,
    pub(crate) says: Says,
}

pub(crate) enum Says {
    Type(LitStr),
    Aggregate(LitStr),
    Codec(TypePath),
    Id(Value),
    Key(Value),
    NoKey,
    Tenant(Value),
    Header(LitStr, Value),
    Context(LitStr, Value),
}

/// A value of the user's: an expression that can be borrowed, and where to point if it has no text.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) place: TokenStream,
    pub(crate) span: Span,
}

/// What all attributes say, and what is wrong with them.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) facts: Vec<Fact>,
    pub(crate) mistakes: Mistakes,
    /// Whether there was something that is meant to be the type, be it right or wrong.
    pub(crate) names_type: bool,
}

impl Reader {
    /// Reads what is said on the type.
    pub(crate) fn read_type(&mut self, attributes: &[Attribute]) {
        self.read(attributes, Self::type_word);
    }

    /// Reads what is said on a field.
    pub(crate) fn read_field(&mut self, field: &Field, member: &Member) {
        let value = Value::of_field(field, member);
        self.read(&field.attrs, |reader, word, input| reader.field_word(word, field, &value, input));
    }

    fn read(
        &mut self,
        attributes: &[Attribute],
        mut read: impl FnMut(&mut Self, &Ident, ParseStream) -> Result<()>,
    ) {
        for attribute in attributes.iter().filter(|attribute| is_event(attribute)) {
            let words = |input: ParseStream| {
                self.each(input, |reader, input| {
                    let word = input.call(Ident::parse_any)?;
                    read(reader, &word, input)
                });
                Ok(())
            };
            if let Err(mistake) = attribute.parse_args_with(words) {
                self.mistakes.add(mistake);
            }
        }
    }

    /// Reads what stands between commas; after a mistake it goes on behind the next one.
    fn each(&mut self, input: ParseStream, mut read: impl FnMut(&mut Self, ParseStream) -> Result<()>) {
        while !input.is_empty() {
            if let Err(mistake) = read(self, input).and_then(|()| comma(input)) {
                self.mistakes.add(mistake);
                skip(input);
            }
        }
    }

    fn type_word(&mut self, word: &Ident, input: ParseStream) -> Result<()> {
        let name = word.to_string();
        self.names_type |= name == "type" || word::nearest(&name, &ON_TYPE) == Some("type");
        let says = match name.as_str() {
            "type" => Says::Type(given(word, input)?.parse()?),
            "aggregate" => Says::Aggregate(given(word, input)?.parse()?),
            "codec" => Says::Codec(given(word, input)?.parse()?),
            "id" => Says::Id(Value::parse(given(word, input)?)?),
            "key" => Says::Key(Value::parse(given(word, input)?)?),
            "tenant" => Says::Tenant(Value::parse(given(word, input)?)?),
            "no_key" => bare(word, input).map(|()| Says::NoKey)?,
            "header" => return self.pairs(word, input, Says::Header),
            "context" => return self.pairs(word, input, Says::Context),
            _ => return Err(word::unknown(word, &ON_TYPE)),
        };
        self.facts.push(Fact { span: word.span(), says });
        Ok(())
    }

    /// Reads `("name" = expression, ...)`.
    fn pairs(&mut self, word: &Ident, input: ParseStream, says: fn(LitStr, Value) -> Says) -> Result<()> {
        if !input.peek(syn::token::Paren) {
            return Err(needs(word, "names and values"));
        }
        let inside;
        parenthesized!(inside in input);
        self.each(&inside, |reader, input| {
            let name: LitStr = input.parse()?;
            input.parse::<Token![=]>()?;
            let value = Value::parse(input)?;
            reader.facts.push(Fact { span: name.span(), says: says(name, value) });
            Ok(())
        });
        Ok(())
    }

    fn field_word(&mut self, word: &Ident, field: &Field, value: &Value, input: ParseStream) -> Result<()> {
        let value = value.clone();
        let says = match word.to_string().as_str() {
            "id" => bare(word, input).map(|()| Says::Id(value))?,
            "key" => bare(word, input).map(|()| Says::Key(value))?,
            "tenant" => bare(word, input).map(|()| Says::Tenant(value))?,
            "header" => Says::Header(name_of(word, field, input)?, value),
            "context" => Says::Context(name_of(word, field, input)?, value),
            known if ON_TYPE.contains(&known) => {
                let said = format!("`{known}` is said on the type: `#[event({})]`", word::example(known));
                return Err(Error::new(word.span(), said));
            }
            _ => return Err(word::unknown(word, &ON_FIELD)),
        };
        self.facts.push(Fact { span: word.span(), says });
        Ok(())
    }
}

impl Value {
    fn parse(input: ParseStream) -> Result<Self> {
        let expression: Expr = input.parse()?;
        let span = expression.span();
        Ok(Self { place: quote!((#expression)), span })
    }

    fn of_field(field: &Field, member: &Member) -> Self {
        let span = field.ident.as_ref().map_or_else(|| field.ty.span(), Ident::span);
        Self { place: quote!(self.#member), span }
    }
}

/// Whether this is an attribute of ours.
pub(crate) fn is_event(attribute: &Attribute) -> bool {
    attribute.path().is_ident("event")
}

/// The name of a header or context value: the given one, or that of the field.
fn name_of(word: &Ident, field: &Field, input: ParseStream) -> Result<LitStr> {
    if input.parse::<Option<Token![=]>>()?.is_some() {
        return input.parse();
    }
    match &field.ident {
        Some(ident) => Ok(LitStr::new(&ident.unraw().to_string(), word.span())),
        None => {
            let said = format!("the field has no name that the {word} could have; write `{word} = \"name\"`");
            Err(Error::new(word.span(), said))
        }
    }
}

/// The input behind `word =`.
fn given<'a>(word: &Ident, input: ParseStream<'a>) -> Result<ParseStream<'a>> {
    match input.parse::<Option<Token![=]>>()? {
        Some(_) => Ok(input),
        None => Err(needs(word, "a value")),
    }
}

/// Makes sure that nothing is said behind `word`.
fn bare(word: &Ident, input: ParseStream) -> Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    let on_type = match word.to_string().as_str() {
        "no_key" => String::new(),
        name => format!("; an expression is given on the type: `#[event({})]`", word::example(name)),
    };
    Err(Error::new(word.span(), format!("`{word}` takes no value here{on_type}")))
}

fn needs(word: &Ident, what: &str) -> Error {
    let example = word::example(&word.to_string());
    Error::new(word.span(), format!("on a type `{word}` needs {what}, as in `{example}`"))
}

fn comma(input: ParseStream) -> Result<()> {
    if input.is_empty() { Ok(()) } else { input.parse::<Token![,]>().map(drop) }
}

/// Goes behind the next comma.
fn skip(input: ParseStream) {
    while !input.is_empty() && comma(input).is_err() {
        // Nothing but the end, which was looked for, is no token tree.
        let _ = input.parse::<TokenTree>();
    }
}
