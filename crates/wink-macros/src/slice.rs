//! `#[derive(SliceType)]`: name, version, kind and key of a slice as an attribute.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, ExprPath, Ident, LitInt, LitStr, Member, Result};

const HOW: &str = "say under which name values are stored: `#[slice(name = \"plan\")]`";

#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    version: Option<LitInt>,
    kind: Option<Ident>,
    key: Option<LitStr>,
    upgrade: Option<ExprPath>,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let text = "a slice type cannot be generic: its one name would stand for several types";
        return Err(Error::new_spanned(&input.generics, text));
    }
    let options = options(input)?;
    let name = options.name.ok_or_else(|| Error::new_spanned(&input.ident, HOW))?;
    let version = options.version.map(|version| quote! { const VERSION: u32 = #version; });
    let kind = options.kind.map(|kind| {
        quote! { const KIND: ::wink::session::SliceKind = ::wink::session::SliceKind::#kind; }
    });
    let key = options.key.map(|key| key_of(input, &key)).transpose()?;
    let upgrade = options.upgrade.map(|upgrade| {
        quote! {
            fn upgrade(
                from: u32,
                value: ::wink::serde_json::Value,
            ) -> ::core::result::Result<::wink::serde_json::Value, ::std::string::String> {
                #upgrade(from, value)
            }
        }
    });
    let ident = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl ::wink::session::SliceType for #ident {
            const NAME: &'static str = #name;
            #version
            #kind
            #key
            #upgrade
        }
    })
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("slice")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                let name: LitStr = meta.value()?.parse()?;
                if name.value().trim() != name.value() || name.value().is_empty() {
                    return Err(Error::new(
                        name.span(),
                        "a slice's name is not empty and has no space around it",
                    ));
                }
                options.name = Some(name);
            } else if meta.path.is_ident("version") {
                let version: LitInt = meta.value()?.parse()?;
                if version.base10_parse::<u32>()? == 0 {
                    return Err(Error::new(version.span(), "versions count from 1"));
                }
                options.version = Some(version);
            } else if meta.path.is_ident("kind") {
                options.kind = Some(kind(&meta.value()?.parse()?)?);
            } else if meta.path.is_ident("key") {
                options.key = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("upgrade") {
                options.upgrade = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                return Err(meta.error("expected `name`, `version`, `kind`, `key` or `upgrade`"));
            }
            Ok(())
        })?;
    }
    Ok(options)
}

fn kind(text: &LitStr) -> Result<Ident> {
    match text.value().as_str() {
        "state" => Ok(Ident::new("State", text.span())),
        "log" => Ok(Ident::new("Log", text.span())),
        _ => Err(Error::new(
            text.span(),
            "expected \"state\" (rolled back with a failed call) or \"log\" (never)",
        )),
    }
}

fn key_of(input: &DeriveInput, key: &LitStr) -> Result<TokenStream> {
    let wanted: Member = key.parse()?;
    let Data::Struct(data) = &input.data else {
        let text = "`key` names a field, and an enum has none: implement `SliceType` by hand";
        return Err(Error::new(key.span(), text));
    };
    if !data.fields.members().any(|member| member == wanted) {
        return Err(Error::new(key.span(), format!("`{}` has no field `{}`", input.ident, key.value())));
    }
    Ok(quote! {
        const KEYED: bool = true;

        fn key(&self) -> ::core::option::Option<::wink::session::SliceKey> {
            ::core::option::Option::Some(::std::string::ToString::to_string(&self.#wanted).into())
        }
    })
}
