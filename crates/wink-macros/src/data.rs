//! `#[data]`: the derives that parameters and values need, with paths that go through `wink`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Item, Result};

pub(crate) fn expand(options: &TokenStream, item: Item) -> Result<TokenStream> {
    if !options.is_empty() {
        return Err(Error::new_spanned(options, "`#[data]` takes no options"));
    }
    if !matches!(item, Item::Struct(_) | Item::Enum(_)) {
        return Err(Error::new_spanned(item, "`#[data]` goes on a struct or an enum"));
    }
    let derives = derives();
    Ok(quote! { #derives #item })
}

/// What a type needs to be parameters or a value, without a dependency on serde or schemars.
pub(crate) fn derives() -> TokenStream {
    quote! {
        #[derive(::wink::serde::Serialize, ::wink::serde::Deserialize, ::wink::schemars::JsonSchema)]
        #[serde(crate = "::wink::serde")]
        #[schemars(crate = "::wink::schemars")]
    }
}
