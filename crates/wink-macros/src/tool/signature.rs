//! The arguments and the return type of the function.

use syn::{
    Attribute, Error, FnArg, Generics, Ident, ItemFn, Pat, PatIdent, PatType, Result, ReturnType,
    Signature as Sig, Type, TypeReference,
};

use super::describes_field;

/// What the function takes and gives.
pub(super) struct Signature {
    pub(super) params: Params,
    /// What stands behind the `&mut` of the last argument, if it is the context.
    pub(super) context: Option<Type>,
    pub(super) output: Type,
}

pub(super) enum Params {
    /// The argument called `params`, or one that is taken apart in place: the whole object.
    Whole(Type),
    /// One argument per parameter.
    Inline(Vec<Field>),
}

pub(super) struct Field {
    pub(super) attrs: Vec<Attribute>,
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

impl Signature {
    /// Reads the signature, and takes from the arguments the attributes that only fields can have.
    pub(super) fn take(function: &mut ItemFn) -> Result<Self> {
        refuse_what_no_tool_can_be(&function.sig)?;
        let output = output(&function.sig)?;
        let mut arguments = Vec::new();
        for argument in &mut function.sig.inputs {
            match argument {
                FnArg::Typed(argument) => arguments.push(argument),
                FnArg::Receiver(receiver) => {
                    let how = "a tool has no `self`: take what it needs from `cx.resource::<T>()`, or implement \
                               `Handler` for your type";
                    return Err(Error::new_spanned(receiver, how));
                }
            }
        }
        let context = match arguments.last() {
            Some(last) => context(&last.ty)?,
            None => None,
        };
        if context.is_some() {
            arguments.pop();
        }
        let params = params(arguments)?;
        Ok(Self { params, context, output })
    }
}

fn refuse_what_no_tool_can_be(sig: &Sig) -> Result<()> {
    let Generics { params, where_clause, .. } = &sig.generics;
    if !params.is_empty() || where_clause.is_some() {
        return Err(Error::new_spanned(
            &sig.generics,
            "a tool has one schema: its function cannot be generic",
        ));
    }
    if let Some(unsafety) = &sig.unsafety {
        return Err(Error::new_spanned(unsafety, "a model cannot keep the promises that `unsafe` asks for"));
    }
    Ok(())
}

fn output(sig: &Sig) -> Result<Type> {
    match &sig.output {
        ReturnType::Type(_, output) => Ok(output.as_ref().clone()),
        ReturnType::Default => {
            let how = "a tool returns `ToolResult<R>` or `Result<ToolResult<R>, ToolError>`; one without a value \
                       returns `ToolResult<()>`";
            Err(Error::new_spanned(&sig.ident, how))
        }
    }
}

/// The context, if this is its type.
fn context(ty: &Type) -> Result<Option<Type>> {
    match ty {
        Type::Reference(TypeReference { mutability: Some(_), elem, .. }) => Ok(Some(elem.as_ref().clone())),
        _ if names_context(ty) => Err(Error::new_spanned(
            ty,
            "write `&mut ToolContext` (or `&mut ReadContext`): the context is lent",
        )),
        _ => Ok(None),
    }
}

fn names_context(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => names_context(&reference.elem),
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "ToolContext" || segment.ident == "ReadContext"),
        _ => false,
    }
}

fn params(arguments: Vec<&mut PatType>) -> Result<Params> {
    let alone = arguments.len() == 1;
    let mut fields = Vec::new();
    for argument in arguments {
        refuse_reference(&argument.ty)?;
        let name = match argument.pat.as_ref() {
            Pat::Ident(PatIdent { ident, by_ref: None, subpat: None, .. }) => Some(ident.clone()),
            _ => None,
        };
        let ty = argument.ty.as_ref().clone();
        match name {
            Some(ident) if !(alone && ident == "params") => {
                let (attrs, kept) =
                    std::mem::take(&mut argument.attrs).into_iter().partition(describes_field);
                argument.attrs = kept;
                fields.push(Field { attrs, ident, ty });
            }
            Some(_) | None if alone => return Ok(Params::Whole(ty)),
            Some(_) | None => {
                let how = "give the parameter a name: the model sees it";
                return Err(Error::new_spanned(&argument.pat, how));
            }
        }
    }
    Ok(Params::Inline(fields))
}

fn refuse_reference(ty: &Type) -> Result<()> {
    if names_context(ty) {
        return Err(Error::new_spanned(ty, "the context comes last, and there is one"));
    }
    match ty {
        Type::Reference(_) => {
            let how = "a parameter is owned data: `String` instead of `&str`, `Vec<T>` instead of `&[T]`";
            Err(Error::new_spanned(ty, how))
        }
        Type::ImplTrait(_) => Err(Error::new_spanned(ty, "a tool has one schema: name the parameter's type")),
        _ => Ok(()),
    }
}
