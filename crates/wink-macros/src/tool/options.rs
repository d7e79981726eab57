//! What `#[tool(…)]` and the doc comment say: name, description, timeout.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Expr, ExprLit, ItemFn, Lit, LitStr, Meta, Result, Token};

#[derive(Default)]
pub(crate) struct Options {
    name: Option<LitStr>,
    description: Option<LitStr>,
    /// In milliseconds.
    pub(super) timeout: Option<u64>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let key = input.call(syn::Ident::parse_any)?;
            let expected = || Error::new(key.span(), "expected `name`, `description` or `timeout`");
            if !["name", "description", "timeout"].iter().any(|known| key == known) {
                return Err(expected());
            }
            input.parse::<Token![=]>()?;
            let text: LitStr = input.parse()?;
            match key.to_string().as_str() {
                "name" => options.name = Some(text),
                "description" => options.description = Some(text),
                "timeout" => options.timeout = Some(millis(&text)?),
                _ => return Err(expected()),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    /// The declared name, or the function's.
    pub(super) fn tool_name(&self, function: &ItemFn) -> Result<String> {
        let ident = &function.sig.ident;
        let (name, span) = match &self.name {
            Some(name) => (name.value(), name.span()),
            None => (ident.unraw().to_string(), ident.span()),
        };
        let fits = |character: char| matches!(character, 'a'..='z' | '0'..='9' | '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            let text = format!(
                "tool name {name:?} must match ^[a-z0-9_-]{{1,64}}$; `#[tool(name = \"…\")]` sets it"
            );
            return Err(Error::new(span, text));
        }
        Ok(name)
    }

    /// The declared description, or the first paragraph of the doc comment.
    pub(super) fn tool_description(&self, function: &ItemFn) -> Result<String> {
        let ident = &function.sig.ident;
        let (text, span) = match &self.description {
            Some(text) => (text.value().trim().to_owned(), text.span()),
            None => (first_paragraph(&function.attrs), ident.span()),
        };
        let count = text.chars().count();
        if count == 0 {
            let how = "a tool needs a description for the model: write a doc comment, or `#[tool(description = \"…\")]`";
            return Err(Error::new(span, how));
        }
        if count > 200 {
            let how = format!(
                "a tool's description has at most 200 characters, not {count}: shorten the first paragraph of the \
                 doc comment, or write `#[tool(description = \"…\")]`"
            );
            return Err(Error::new(span, how));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::new(span, "a tool's description must not contain control characters"));
        }
        Ok(text)
    }
}

/// The lines before the first blank one, as one line.
fn first_paragraph(attrs: &[Attribute]) -> String {
    let doc = attrs.iter().filter_map(doc_text).collect::<Vec<_>>().join("\n");
    let paragraph = doc.lines().map(str::trim).skip_while(|line| line.is_empty());
    paragraph.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn doc_text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(doc) = &attribute.meta else { return None };
    match &doc.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if doc.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// `500ms`, `30s`, `2m`, `1h`.
fn millis(text: &LitStr) -> Result<u64> {
    let value = text.value();
    let digits = value.trim_end_matches(|character: char| !character.is_ascii_digit());
    let unit = match value.get(digits.len()..) {
        Some("ms") => Some(1),
        Some("s") => Some(1_000),
        Some("m") => Some(60_000),
        Some("h") => Some(3_600_000),
        _ => None,
    };
    let count = digits.parse::<u64>().ok().filter(|&count| count > 0);
    unit.zip(count)
        .and_then(|(unit, count)| count.checked_mul(unit))
        .ok_or_else(|| Error::new(text.span(), "expected a time like \"500ms\", \"30s\", \"2m\" or \"1h\""))
}
