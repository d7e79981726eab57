//! The one shape of a handler: `(params, &mut context)`, asynchronous or blocking.

use std::future::Future;

use super::context::{CallContext, ReadContext, ToolContext};
use super::result::IntoToolResult;

/// Something that can handle calls of a tool: a plain `async fn`, or a type of yours with state.
///
/// ```
/// use wink::prelude::*;
///
/// async fn shout(text: Text, _cx: &mut ToolContext) -> ToolResult<String> {
///     ToolResult::value(text.text.to_uppercase())
/// }
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Text { text: String }
/// let tool = Tool::new("shout", "Say it louder.", shout);
/// ```
#[diagnostic::on_unimplemented(
    message = "expected a tool handler: `async fn(params, &mut ToolContext) -> Result<ToolResult<R>, ToolError>`",
    label = "this is not such a function",
    note = "a handler takes exactly two arguments: its parameters by value (`()` if there are none), and `&mut ToolContext` (or `&mut ReadContext` for a tool that only looks)",
    note = "a plain `fn` goes to `Tool::blocking`",
    note = "closures cannot borrow the context across an await: write an `async fn`, and take dependencies from `cx.resource::<T>()`"
)]
pub trait Handler<C, P, R>: Send + Sync + 'static {
    /// Handles one call.
    fn call<'a>(
        &'a self,
        params: P,
        cx: &'a mut C,
    ) -> impl Future<Output: IntoToolResult<Value = R>> + Send + 'a;
}

impl<F, C, P, R> Handler<C, P, R> for F
where
    C: 'static,
    F: for<'a> AsyncHandlerFn<'a, C, P, R> + Send + Sync + 'static,
{
    fn call<'a>(
        &'a self,
        params: P,
        cx: &'a mut C,
    ) -> impl Future<Output: IntoToolResult<Value = R>> + Send + 'a {
        AsyncHandlerFn::call_fn(self, params, cx)
    }
}

/// A function that borrows its context for as long as its future lives. Implemented for every fitting function;
/// one lifetime, so that the compiler can infer `P` and `R`.
#[doc(hidden)]
pub trait AsyncHandlerFn<'a, C: 'a, P, R> {
    type Future: Future<Output: IntoToolResult<Value = R>> + Send + 'a;
    fn call_fn(&self, params: P, cx: &'a mut C) -> Self::Future;
}

impl<'a, F, Fut, C, P, R> AsyncHandlerFn<'a, C, P, R> for F
where
    C: 'a,
    F: AsyncShape<'a, C, P, Future = Fut>,
    Fut: Future<Output: IntoToolResult<Value = R>> + Send + 'a,
{
    type Future = Fut;

    fn call_fn(&self, params: P, cx: &'a mut C) -> Fut {
        self.call_shape(params, cx)
    }
}

/// The arguments of a handler, apart from what comes of them: what is wrong with the one is reported apart from
/// what is wrong with the other.
#[doc(hidden)]
pub trait AsyncShape<'a, C: 'a, P> {
    type Future: Future;
    fn call_shape(&self, params: P, cx: &'a mut C) -> Self::Future;
}

/// A handler that blocks its thread: `fn(params, &mut ToolContext) -> Result<ToolResult<R>, ToolError>`.
#[diagnostic::on_unimplemented(
    message = "expected a blocking tool handler: `fn(params, &mut ToolContext) -> Result<ToolResult<R>, ToolError>`",
    label = "this is not such a function",
    note = "a handler takes exactly two arguments: its parameters by value (`()` if there are none), and `&mut ToolContext` (or `&mut ReadContext` for a tool that only looks)",
    note = "an `async fn` goes to `Tool::new`"
)]
pub trait BlockingHandler<C, P, R>: Send + Sync + 'static {
    /// What it returns.
    type Output: IntoToolResult<Value = R>;
    /// Handles one call.
    fn call(&self, params: P, cx: &mut C) -> Self::Output;
}

/// One implementation per context rather than one for all: between two, the compiler tries both and then says that
/// the trait is not implemented, with our words; of one it would report some condition deep inside.
macro_rules! functions_with {
    ($context:ty) => {
        impl<'a, F, Fut, P> AsyncShape<'a, $context, P> for F
        where
            F: Fn(P, &'a mut $context) -> Fut,
            Fut: Future,
        {
            type Future = Fut;

            fn call_shape(&self, params: P, cx: &'a mut $context) -> Fut {
                self(params, cx)
            }
        }

        impl<F, O, P, R> BlockingHandler<$context, P, R> for F
        where
            F: Fn(P, &mut $context) -> O + Send + Sync + 'static,
            O: IntoToolResult<Value = R>,
        {
            type Output = O;

            fn call(&self, params: P, cx: &mut $context) -> O {
                self(params, cx)
            }
        }
    };
}

functions_with!(ToolContext);
functions_with!(ReadContext);

/// The context types that a handler can ask for.
pub trait ContextKind: Send + 'static + sealed::Sealed {
    /// Whether a tool that asks for this is read-only.
    const READ_ONLY: bool;
    #[doc(hidden)]
    fn wrap(context: CallContext) -> Self;
}

impl ContextKind for ToolContext {
    const READ_ONLY: bool = false;

    fn wrap(context: CallContext) -> Self {
        Self::new(context)
    }
}

impl ContextKind for ReadContext {
    const READ_ONLY: bool = true;

    fn wrap(context: CallContext) -> Self {
        context.work.resources.only_look();
        Self::new(context)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ToolContext {}
    impl Sealed for super::ReadContext {}
}
