//! From a typed [`Tool`] to a frozen [`AnyTool`].

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value;

use super::context::CallContext;
use super::contract::{Contract, HandlerKind, ToolExample, check_description, check_name};
use super::erased::{AnyTool, Erased, ErasedResult, IntoTool, KeyParts, Params};
use super::error::{ToolError, ToolValidationError};
use super::footprint::Footprint;
use super::handler::{BlockingHandler, ContextKind, Handler};
use super::result::{IntoToolResult, RenderError, ToolResult};
use super::schema::{self, CompiledSchema, ParseLimits, Rejection, SchemaError, Typed};
use super::shown::{Making, OutputSource, Shown};
use super::{Tool, ToolData, render};
use crate::BoxFuture;
use crate::ledger::{KeyStrategy, params_key};
use crate::session::{ErasedValue, Item, Session, SessionError, SliceType};
use crate::support::canonical::canonical_hash;
use crate::support::future::catch;

/// Where a tool's schema comes from.
pub(crate) enum SchemaSource {
    Typed(fn() -> Result<Value, SchemaError>),
    Given(Value),
}

impl SchemaSource {
    pub(crate) fn typed<P: JsonSchema>() -> Self {
        Self::Typed(schema::advertised_schema::<P>)
    }

    pub(super) fn resolve(self) -> Result<Value, SchemaError> {
        match self {
            Self::Typed(make) => make(),
            Self::Given(value) => schema::tighten(value),
        }
    }
}

impl OutputSource {
    /// The schema of values of type `R`; none for `()`.
    pub(crate) fn typed<R: JsonSchema + 'static>() -> Self {
        Self::Typed(|| (TypeId::of::<R>() != TypeId::of::<()>()).then(schema::output_schema::<R>))
    }
}

/// How a value is shown.
pub(crate) type Rendering<R> = Arc<dyn Fn(&R) -> Result<String, RenderError> + Send + Sync>;

/// Which values of successful calls go to slices.
pub(crate) enum Publish<R> {
    /// Those whose type the session knows.
    IfKnown,
    Slice {
        prepare: fn(&Session) -> Result<(), SessionError>,
    },
    Each {
        kind: TypeId,
        prepare: fn(&Session) -> Result<(), SessionError>,
        items: fn(&R) -> Vec<(TypeId, Item)>,
    },
}

impl<R> Publish<R> {
    pub(crate) fn slice() -> Self
    where
        R: SliceType,
    {
        Self::Slice { prepare: |session| session.know::<R>() }
    }

    pub(crate) fn each<T: SliceType + Clone>() -> Self
    where
        R: AsRef<[T]>,
    {
        Self::Each {
            kind: TypeId::of::<T>(),
            prepare: |session| session.know::<T>(),
            items: |value| {
                value
                    .as_ref()
                    .iter()
                    .map(|item| (TypeId::of::<T>(), Arc::new(item.clone()) as Item))
                    .collect()
            },
        }
    }
}

/// Runs a handler, its types erased.
pub(crate) trait Run: Send + Sync {
    fn run(
        self: Arc<Self>,
        params: Params,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<ErasedResult, ToolError>>;
    fn run_blocking(&self, params: Params, cx: CallContext) -> Result<ErasedResult, ToolError>;
}

pub(crate) struct AsyncRun<H, T> {
    pub(crate) handler: H,
    pub(crate) of: PhantomData<T>,
}

pub(crate) struct BlockingRun<H, T> {
    pub(crate) handler: H,
    pub(crate) of: PhantomData<T>,
}

impl<H, C, P, R> Run for AsyncRun<H, fn() -> (C, P, R)>
where
    C: ContextKind,
    P: ToolData,
    R: ToolData,
    H: Handler<C, P, R>,
{
    fn run(
        self: Arc<Self>,
        params: Params,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<ErasedResult, ToolError>> {
        Box::pin(async move {
            let params = take::<P>(params)?;
            let mut cx = C::wrap(cx);
            let result = self.handler.call(params, &mut cx).await.into_tool_result()?;
            Ok(erase(result))
        })
    }

    fn run_blocking(&self, _: Params, _: CallContext) -> Result<ErasedResult, ToolError> {
        Err(ToolError::new("this handler is asynchronous"))
    }
}

impl<H, C, P, R> Run for BlockingRun<H, fn() -> (C, P, R)>
where
    C: ContextKind,
    P: ToolData,
    R: ToolData,
    H: BlockingHandler<C, P, R>,
{
    fn run(
        self: Arc<Self>,
        params: Params,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<ErasedResult, ToolError>> {
        Box::pin(std::future::ready(self.run_blocking(params, cx)))
    }

    fn run_blocking(&self, params: Params, cx: CallContext) -> Result<ErasedResult, ToolError> {
        let params = take::<P>(params)?;
        let mut cx = C::wrap(cx);
        Ok(erase(self.handler.call(params, &mut cx).into_tool_result()?))
    }
}

fn take<P: 'static>(params: Params) -> Result<P, ToolError> {
    let typed: Box<dyn Any> = params.typed;
    typed
        .downcast::<P>()
        .map(|params| *params)
        .map_err(|_| ToolError::new("the parameters have another type"))
}

fn erase<R: ToolData>(result: ToolResult<R>) -> ErasedResult {
    let (message, value, success, hidden) = result.into_parts();
    let value = value.map(|value| Arc::new(value) as Arc<dyn ErasedValue>);
    ErasedResult { message, value, success, hidden }
}

/// A finished tool.
struct Built<P, R> {
    contract: Contract,
    run: Option<Arc<dyn Run>>,
    footprint: Option<Arc<dyn Fn(&P) -> Footprint + Send + Sync>>,
    render: Option<Rendering<R>>,
    publish: super::Publish<R>,
}

impl<P: ToolData, R: ToolData> IntoTool for Tool<P, R> {
    fn declared_name(&self) -> &str {
        &self.name
    }

    fn into_tool(self) -> Result<AnyTool, ToolValidationError> {
        check_name(&self.name)?;
        let description = check_description("its description", &self.description)
            .map_err(|error| ToolValidationError(format!("tool {}: {}", self.name, error.0)))?;
        let name: Arc<str> = self.name.as_str().into();
        let making = Making {
            tool: Arc::clone(&name),
            schema: self.schema,
            sensitive: self.sensitive,
            keyed_by: self.idempotency.as_ref().and_then(|config| match &config.strategy {
                KeyStrategy::Params(fields) => Some(fields.clone()),
                _ => None,
            }),
            output_schema: self.output_schema,
            examples: self.examples,
            render: self.render.clone(),
        };
        let shown = match self.vouched {
            true => Shown::wanted(making),
            false => Shown::made(making.make()?),
        };
        let built = Built {
            contract: Contract {
                name,
                description: description.into(),
                shown,
                annotations: self.annotations,
                timeout: self.timeout,
                isolation: self.isolation,
                accepts_overrides: self.accepts_overrides,
                handler: self.kind,
                idempotency: self.idempotency,
            },
            run: self.run,
            footprint: self.footprint,
            render: self.render,
            publish: self.publish,
        };
        if built.render.is_none()
            && built.contract.handler != HandlerKind::Missing
            && falls_back_to_json::<R>()
        {
            tracing::debug!(
                tool = &*built.contract.name,
                value = std::any::type_name::<R>(),
                "values of this tool are shown to the model as JSON; Tool::rendered or render_with says better"
            );
        }
        Ok(AnyTool { inner: Arc::new(built) })
    }
}

fn falls_back_to_json<R: 'static>() -> bool {
    let own = [TypeId::of::<()>(), TypeId::of::<String>(), TypeId::of::<Vec<String>>()];
    !own.contains(&TypeId::of::<R>())
}

/// Arguments in the tool's own type.
pub(super) fn decoded<P: ToolData>(
    tool: &str,
    schema: &CompiledSchema,
    text: &str,
    limits: &ParseLimits,
) -> Result<P, Rejection> {
    // A type's decoder is foreign code.
    catch(|| schema.decode(text, limits)).unwrap_or_else(|panic| {
        tracing::error!(tool, panic, "decoding arguments panicked");
        Err(Rejection::undecodable())
    })
}

/// A value as the model sees it.
pub(super) fn rendered<'a, R: ToolData>(
    tool: &str,
    render: Option<&Rendering<R>>,
    value: &'a dyn ErasedValue,
) -> Cow<'a, str> {
    let any: &dyn Any = value;
    let own = any.downcast_ref::<R>().map(|typed| match render {
        Some(own) => catch(|| own(typed).map(Cow::Owned)).unwrap_or_else(|panic| Err(RenderError(panic))),
        None => catch(|| render::default_text(typed)).unwrap_or_else(|panic| Err(RenderError(panic))),
    });
    match own {
        Some(Ok(text)) => text,
        failed => {
            if let Some(Err(error)) = failed {
                tracing::warn!(tool, %error, "rendered as JSON instead");
            }
            catch(|| value.to_json())
                .ok()
                .and_then(Result::ok)
                .map(render::value_text)
                .unwrap_or_default()
                .into()
        }
    }
}

impl<P: ToolData, R: ToolData> Built<P, R> {
    /// The arguments, the same for all spellings of the same ones.
    fn uniform(&self, params: &Params) -> Result<Value, String> {
        let written =
            params.typed::<P>().and_then(|typed| catch(|| serde_json::to_value(typed).ok()).ok()?);
        let typed = match &written {
            _ if TypeId::of::<P>() == TypeId::of::<Value>() => Typed::AsWritten,
            Some(written) => Typed::Known(written),
            // Not every parameter type can be serialised again.
            None => Typed::Unknown,
        };
        let all = self.contract.compiled().uniform(params.text(), typed);
        Ok(all.ok_or("the arguments could not be read again")?)
    }
}

impl<P: ToolData, R: ToolData> Erased for Built<P, R> {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn parse(&self, text: &Arc<str>, limits: &ParseLimits) -> Result<Params, Rejection> {
        let typed: P = decoded(&self.contract.name, self.contract.compiled(), text, limits)?;
        Ok(Params::new(Box::new(typed), Arc::clone(text)))
    }

    fn footprint(&self, params: &Params) -> Option<Footprint> {
        let declared = self.footprint.as_ref()?;
        let typed = params.typed::<P>()?;
        // A declaration that panics declares nothing that can be relied on.
        Some(catch(|| declared(typed)).unwrap_or_else(|_| Footprint::everything()))
    }

    fn run(&self, params: Params, cx: CallContext) -> BoxFuture<'static, Result<ErasedResult, ToolError>> {
        match &self.run {
            Some(run) => Arc::clone(run).run(params, cx),
            None => Box::pin(std::future::ready(Err(ToolError::new("the tool has no handler")))),
        }
    }

    fn run_blocking(&self, params: Params, cx: CallContext) -> Result<ErasedResult, ToolError> {
        match &self.run {
            Some(run) => run.run_blocking(params, cx),
            None => Err(ToolError::new("the tool has no handler")),
        }
    }

    fn render<'a>(&self, value: &'a dyn ErasedValue) -> Cow<'a, str> {
        rendered(&self.contract.name, self.render.as_ref(), value)
    }

    fn example(&self, description: &str, input: Value, output: Value) -> Result<ToolExample, String> {
        let whole = self.contract.shown.whole();
        whole.example::<P>(&self.contract.name, description, input, output, |output| {
            let value = catch(|| self.revive(output))??;
            Ok(self.render(value.as_ref()).into_owned())
        })
    }

    fn revive(&self, json: &Value) -> Result<Arc<dyn ErasedValue>, String> {
        let typed: R = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::new(typed))
    }

    fn key(&self, params: &Params) -> Result<Option<KeyParts>, String> {
        let Some(config) = &self.contract.idempotency else { return Ok(None) };
        if matches!(config.strategy, KeyStrategy::None) {
            return Ok(None);
        }
        let all = self.uniform(params)?;
        let params_hash = canonical_hash(&all);
        let text = match &config.strategy {
            KeyStrategy::Auto => params_hash.clone(),
            KeyStrategy::Params(fields) => params_key(&all, fields),
            KeyStrategy::Custom(make) => catch(|| make(&all)).unwrap_or_else(|panic| {
                tracing::error!(tool = &*self.contract.name, panic, "a key function panicked");
                Err("the key function panicked".to_owned())
            })?,
            KeyStrategy::None => return Ok(None),
        };
        Ok(Some(KeyParts { text, params_hash }))
    }

    fn params_hash(&self, params: &Params) -> Result<String, String> {
        Ok(canonical_hash(&self.uniform(params)?))
    }

    fn published(&self, session: &Session, value: &Arc<dyn ErasedValue>) -> Vec<(TypeId, Item)> {
        if let super::Publish::Each { items, .. } = &self.publish {
            let any: &dyn Any = value.as_ref();
            return any.downcast_ref::<R>().map(items).unwrap_or_default();
        }
        if session.registry().accepts(TypeId::of::<R>()) {
            return vec![(TypeId::of::<R>(), Arc::clone(value) as Item)];
        }
        Vec::new()
    }

    fn published_kinds(&self, session: &Session) -> Vec<TypeId> {
        match &self.publish {
            super::Publish::Each { kind, .. } => vec![*kind],
            super::Publish::Slice { .. } | super::Publish::IfKnown => {
                session.registry().accepts(TypeId::of::<R>()).then(|| TypeId::of::<R>()).into_iter().collect()
            }
        }
    }

    fn prepare(&self, session: &Session) -> Result<(), SessionError> {
        match &self.publish {
            super::Publish::IfKnown => Ok(()),
            super::Publish::Slice { prepare } | super::Publish::Each { prepare, .. } => prepare(session),
        }
    }
}
