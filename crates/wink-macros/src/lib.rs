//! The sugar of `wink-rs`: `#[tool]`, `#[data]` and `#[derive(SliceType)]`.
//!
//! Everything here expands to what could be written by hand, in `::wink::…` paths only, so that a crate needs no
//! dependency but `wink-rs`. The macros are documented where `wink` exports them. Nothing here decides anything at
//! run time; what can be checked at compile time is, with a message at the place that is wrong.

mod data;
mod slice;
mod tool;

use proc_macro::TokenStream;
use syn::{Item, parse_macro_input};

/// Makes a tool of a function. See `wink::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as tool::Options);
    let item = parse_macro_input!(item as Item);
    answer(tool::expand(options, item))
}

/// Makes parameters or values of a type. See `wink::data`.
#[proc_macro_attribute]
pub fn data(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as Item);
    answer(data::expand(&options.into(), item))
}

/// Gives a type its slice. See `wink::session::SliceType`.
#[proc_macro_derive(SliceType, attributes(slice))]
pub fn slice_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as syn::DeriveInput);
    answer(slice::expand(&input))
}

fn answer(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
