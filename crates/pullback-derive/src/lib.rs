//! `#[derive(HostType)]`: the layout of a Rust struct, for the crate `pullback`, which compares it with the layout of
//! the struct of a program.
//!
//! The derived function lists the fields with their offsets, which the Rust compiler gives, so nothing here computes a
//! layout.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Type};

/// Implements `pullback::HostType` for a struct with named fields, which must also be `bytemuck::Pod`.
///
/// A field may have the attribute `#[pullback(…)]` with
///
/// - `name = "…"`: the name of the field in the program, where it is another one;
/// - `like = "TYPE"`: a type with the same size that has a layout, such as `[f32; 3]` for a vector of another crate;
/// - `padding`: the field fills a gap, and the program has no such field.
#[proc_macro_derive(HostType, attributes(pullback))]
pub fn host_type(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<proc_macro2::TokenStream, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "`HostType` can be derived for structs only"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(
            data.fields.span(),
            "`HostType` needs fields with names, as those of a program have",
        ));
    };
    let ident = &input.ident;
    let name = ident.to_string();
    let mut listed = Vec::new();
    let mut sizes = Vec::new();
    for field in &fields.named {
        let Some(own) = &field.ident else { continue };
        let options = Options::of(field)?;
        if options.padding {
            continue;
        }
        let ty = &field.ty;
        let like = options.like.as_ref().unwrap_or(ty);
        if options.like.is_some() {
            sizes.push(quote! {
                const _: () = assert!(
                    ::core::mem::size_of::<#ty>() == ::core::mem::size_of::<#like>(),
                    "the type of `like` has another size than the field"
                );
            });
        }
        let shown = own.to_string();
        let shown = shown.strip_prefix("r#").unwrap_or(&shown);
        let wanted = options.name.unwrap_or_else(|| shown.to_string());
        listed.push(quote! {
            ::pullback::Field::new(
                #wanted,
                ::core::mem::offset_of!(#ident, #own),
                <#like as ::pullback::HostType>::layout(),
            )
        });
    }
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "`HostType` cannot be derived for generic structs"));
    }
    Ok(quote! {
        #(#sizes)*

        #[automatically_derived]
        impl ::pullback::HostType for #ident {
            fn layout() -> ::pullback::Layout {
                ::pullback::Layout::structure(
                    #name,
                    ::core::mem::size_of::<#ident>(),
                    ::std::vec![#(#listed),*],
                )
            }
        }
    })
}

/// The attributes of a field.
#[derive(Default)]
struct Options {
    name: Option<String>,
    like: Option<Type>,
    padding: bool,
}

impl Options {
    fn of(field: &Field) -> Result<Options, Error> {
        let mut options = Options::default();
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("pullback")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    options.name = Some(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("like") {
                    options.like = Some(meta.value()?.parse::<LitStr>()?.parse()?);
                } else if meta.path.is_ident("padding") {
                    options.padding = true;
                } else {
                    return Err(meta.error("expected `name = \"…\"`, `like = \"TYPE\"` or `padding`"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}
