//! `#[tool]`: the function stays as it is; beside it comes `<name>_tool()`, which makes the tool.

mod options;
mod signature;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, Item, ItemFn, Result, Type, Visibility};

pub(crate) use options::Options;
use signature::{Field, Params, Signature};

use crate::data::derives;

const NOT_A_FUNCTION: &str =
    "`#[tool]` goes on a free function: `async fn name(…) -> ToolResult<R>`, or a plain `fn` that may block";

pub(crate) fn expand(options: Options, item: Item) -> Result<TokenStream> {
    let Item::Fn(mut function) = item else {
        return Err(Error::new_spanned(item, NOT_A_FUNCTION));
    };
    let name = options.tool_name(&function)?;
    let description = options.tool_description(&function)?;
    let signature = Signature::take(&mut function)?;

    let (vis, ident) = (&function.vis, &function.sig.ident);
    let params_struct = params_struct(vis, ident, &signature.params);
    let params = params_type(ident, &signature.params);
    let handler = handler(&function, &signature, &params);
    let make = format_ident!("{}_tool", ident.unraw(), span = ident.span());
    let build = match function.sig.asyncness {
        Some(_) => quote! { new },
        None => quote! { blocking },
    };
    let timeout = options.timeout.map(|millis| {
        quote! { .timeout(::core::time::Duration::from_millis(#millis)) }
    });
    let output = &signature.output;
    // At the return type, so that one which is no result is reported there.
    let value = quote_spanned! { output.span() => <#output as ::wink::tool::IntoToolResult>::Value };
    let cfgs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let doc = format!("The tool that calls [`{}`].", ident.unraw());
    Ok(quote! {
        #function

        #params_struct

        #(#cfgs)*
        #[doc = #doc]
        #vis fn #make() -> ::wink::tool::Tool<#params, #value> {
            #handler
            ::wink::tool::Tool::#build(#name, #description, handle)#timeout
        }
    })
}

/// The type of one argument each, for a function that takes its parameters one by one.
fn params_struct(vis: &Visibility, ident: &Ident, params: &Params) -> Option<TokenStream> {
    let Params::Inline(fields) = params else { return None };
    if fields.is_empty() {
        return None;
    }
    let name = struct_name(ident);
    let derives = derives();
    let fields = fields.iter().map(|Field { attrs, ident, ty }| quote! { #(#attrs)* #vis #ident: #ty });
    Some(quote! {
        // No doc comment: it would become part of the schema.
        #[allow(missing_docs)]
        #derives
        #[serde(deny_unknown_fields)]
        #vis struct #name { #(#fields),* }
    })
}

fn params_type(ident: &Ident, params: &Params) -> TokenStream {
    match params {
        Params::Whole(ty) => quote! { #ty },
        Params::Inline(fields) if fields.is_empty() => quote! { () },
        Params::Inline(_) => {
            let name = struct_name(ident);
            quote! { #name }
        }
    }
}

/// The one shape of a handler, around the function as it was written.
fn handler(function: &ItemFn, signature: &Signature, params: &TokenStream) -> TokenStream {
    let (asyncness, ident, output) = (&function.sig.asyncness, &function.sig.ident, &signature.output);
    let wait = asyncness.map(|_| quote! { .await });
    let default: Type = syn::parse_quote! { ::wink::tool::ToolContext };
    let context = signature.context.as_ref().unwrap_or(&default);
    let mut arguments = match &signature.params {
        Params::Whole(_) => vec![quote! { params }],
        Params::Inline(fields) => fields.iter().map(|Field { ident, .. }| quote! { params.#ident }).collect(),
    };
    if signature.context.is_some() {
        arguments.push(quote! { context });
    }
    quote! {
        #[allow(unused_variables)]
        #asyncness fn handle(params: #params, context: &mut #context) -> #output {
            #ident(#(#arguments),*)#wait
        }
    }
}

/// `add_numbers` → `AddNumbersParams`.
fn struct_name(ident: &Ident) -> Ident {
    let mut name = String::new();
    for word in ident.unraw().to_string().split('_') {
        let mut letters = word.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    format_ident!("{name}Params", span = ident.span())
}

/// Whether an attribute of an argument belongs to the field that is made of it.
fn describes_field(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}
