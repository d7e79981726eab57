//! Bindings: how a resource is made, how long an instance lives, and what is done with it at both ends.

use std::any::{Any, TypeId};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use super::error::{BoxError, ResourceError};
use super::name::ResourceName;
use super::resolve::Resolver;
use super::snapshot::{ErasedSnapshot, SnapshotOf, Snapshotable, typed};
use crate::BoxFuture;
use crate::filesystem::Filesystem;

/// How long an instance lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// One per opened context.
    #[default]
    Singleton,
    /// One per tool call, closed after it.
    ToolCall,
    /// A new one at every get; closed with the call, resource or context that got it.
    Prototype,
}

/// How resources of type `T` are made. `T` may be a trait object.
///
/// ```
/// use wink::resource::{Binding, ResourceRegistry, Scope};
///
/// struct Config { url: String }
/// struct Client { url: String }
/// struct Tracer;
///
/// # async fn demo() -> Result<(), wink::resource::ResourceError> {
/// let registry = ResourceRegistry::of((
///     Binding::new(|_| Ok(Config { url: "https://example.com".into() })),
///     Binding::with_async(|r| async move { Ok(Client { url: r.get::<Config>().await?.url.clone() }) })
///         .on_close(|_client| async { Ok(()) }),
///     Binding::new(|_| Ok(Tracer)).scope(Scope::ToolCall),
/// ))?;
/// let resources = registry.open().await?;
/// assert_eq!(resources.get::<Client>().await?.url, "https://example.com");
/// # Ok(())
/// # }
/// ```
pub struct Binding<T: ?Sized> {
    parts: Parts,
    bound: PhantomData<fn() -> Arc<T>>,
}

impl<T: Send + Sync + 'static> Binding<T> {
    /// A binding whose provider needs no other resource that would have to be waited for.
    pub fn new(provider: impl Fn(&Resolver) -> Result<T, BoxError> + Send + Sync + 'static) -> Self {
        Self::of_trait(move |resolver| provider(resolver).map(Arc::new))
    }

    /// A binding whose provider is asynchronous, and may wait for other resources.
    pub fn with_async<F>(provider: impl Fn(Resolver) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, BoxError>> + Send + 'static,
    {
        Self::of_trait_async(move |resolver| {
            let building = provider(resolver);
            async move { building.await.map(Arc::new) }
        })
    }
}

impl<T: ?Sized + Send + Sync + 'static> Binding<T> {
    /// As [`Binding::new`], for trait objects: `Binding::<dyn Index>::of_trait(|_| Ok(Arc::new(MyIndex)))`.
    pub fn of_trait(
        provider: impl Fn(&Resolver) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::made_by(Arc::new(move |resolver| {
            let made = provider(&resolver).map(erase);
            Box::pin(std::future::ready(made))
        }))
    }

    /// As [`Binding::with_async`], for trait objects.
    pub fn of_trait_async<F>(provider: impl Fn(Resolver) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Arc<T>, BoxError>> + Send + 'static,
    {
        Self::made_by(Arc::new(move |resolver| {
            let building = provider(resolver);
            Box::pin(async move { building.await.map(erase) })
        }))
    }

    /// An instance made outside, which stays its owner's: the runtime never closes it, and it can be had without
    /// opening the registry.
    #[must_use]
    pub fn instance(instance: Arc<T>) -> Self {
        Self::from_source(Source::Outside(erase(instance)))
    }

    /// Sets how long an instance lives.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.parts.scope = scope;
        self
    }

    /// Builds the singleton when the registry is opened, not at the first get.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.parts.eager = true;
        self
    }

    /// Gives the resource a stable name, for messages and stored snapshots. The default is the type's, which may
    /// change when code is moved.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.parts.name = ResourceName::given(name);
        self
    }

    /// Runs after an instance was built, before anybody sees it. When it fails, the instance is closed.
    #[must_use]
    pub fn post_construct<F>(mut self, hook: impl Fn(Arc<T>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.parts.post_construct = Some(erase_hook(hook));
        self
    }

    /// Runs when the life of an instance ends. Calls wait for it, for at most thirty seconds.
    #[must_use]
    pub fn on_close<F>(mut self, hook: impl Fn(Arc<T>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.parts.on_close = Some(erase_hook(hook));
        self
    }

    fn made_by(provider: Arc<Provider>) -> Self {
        Self::from_source(Source::Provider(provider))
    }

    fn from_source(source: Source) -> Self {
        let parts = Parts {
            key: TypeId::of::<T>(),
            name: ResourceName::of::<T>(),
            source,
            scope: Scope::default(),
            eager: false,
            post_construct: None,
            on_close: None,
            // The workspace is transactional however it is bound.
            snapshot: (TypeId::of::<T>() == TypeId::of::<dyn Filesystem>()).then(super::files::operations),
        };
        Self { parts, bound: PhantomData }
    }
}

impl<T: Snapshotable> Binding<T> {
    /// Makes the resource take part in every transaction: each call works on its own fork.
    #[must_use]
    pub fn snapshotable(mut self) -> Self {
        self.parts.snapshot = Some(Arc::new(SnapshotOf::<T>(PhantomData)));
        self
    }
}

impl<T: ?Sized> fmt::Debug for Binding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

/// A binding of any type, as registries hold it. Cloning it is cheap.
#[derive(Clone)]
pub struct AnyBinding(pub(crate) Arc<Parts>);

impl AnyBinding {
    /// What the resource is called.
    #[must_use]
    pub fn name(&self) -> &ResourceName {
        &self.0.name
    }

    /// How long an instance lives.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    pub(crate) fn check(&self) -> Result<(), ResourceError> {
        let parts = &*self.0;
        let outside = matches!(parts.source, Source::Outside(_));
        let reason = if outside && (parts.post_construct.is_some() || parts.on_close.is_some()) {
            "an instance made outside has no hooks: its owner opens and closes it"
        } else if outside && parts.scope != Scope::Singleton {
            "an instance made outside is a singleton"
        } else if parts.eager && parts.scope != Scope::Singleton {
            "only a singleton can be eager"
        } else if parts.snapshot.is_some() && parts.scope != Scope::Singleton {
            "only a singleton can be snapshotable: the others end with their call"
        } else {
            return Ok(());
        };
        Err(ResourceError::InvalidBinding { name: parts.name.clone(), reason })
    }
}

impl<T: ?Sized> From<Binding<T>> for AnyBinding {
    fn from(binding: Binding<T>) -> Self {
        Self(Arc::new(binding.parts))
    }
}

impl fmt::Debug for AnyBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Several bindings: a tuple of up to twelve of different types, or an array or vector of erased ones.
pub trait BindingSet {
    /// The bindings, in order.
    fn into_bindings(self) -> Vec<AnyBinding>;
}

impl BindingSet for () {
    fn into_bindings(self) -> Vec<AnyBinding> {
        Vec::new()
    }
}

impl<B: Into<AnyBinding>> BindingSet for Vec<B> {
    fn into_bindings(self) -> Vec<AnyBinding> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<B: Into<AnyBinding>, const N: usize> BindingSet for [B; N] {
    fn into_bindings(self) -> Vec<AnyBinding> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! binding_tuples {
    ($($name:ident)*) => {
        #[allow(non_snake_case, reason = "the type's name serves for the value as well")]
        impl<$($name: Into<AnyBinding>),*> BindingSet for ($($name,)*) {
            fn into_bindings(self) -> Vec<AnyBinding> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

binding_tuples!(A);
binding_tuples!(A B);
binding_tuples!(A B C);
binding_tuples!(A B C D);
binding_tuples!(A B C D E);
binding_tuples!(A B C D E F);
binding_tuples!(A B C D E F G);
binding_tuples!(A B C D E F G H);
binding_tuples!(A B C D E F G H I);
binding_tuples!(A B C D E F G H I J);
binding_tuples!(A B C D E F G H I J K);
binding_tuples!(A B C D E F G H I J K L);

/// An instance whose type is no longer known: an `Arc` of the bound type.
pub(crate) type Erased = Arc<dyn Any + Send + Sync>;

pub(crate) type Provider = dyn Fn(Resolver) -> BoxFuture<'static, Result<Erased, BoxError>> + Send + Sync;

pub(crate) type Hook = dyn Fn(&ResourceName, &Erased) -> Result<BoxFuture<'static, Result<(), BoxError>>, ResourceError>
    + Send
    + Sync;

pub(crate) enum Source {
    Provider(Arc<Provider>),
    Outside(Erased),
}

/// What a binding consists of.
pub(crate) struct Parts {
    pub(crate) key: TypeId,
    pub(crate) name: ResourceName,
    pub(crate) source: Source,
    pub(crate) scope: Scope,
    pub(crate) eager: bool,
    pub(crate) post_construct: Option<Arc<Hook>>,
    pub(crate) on_close: Option<Arc<Hook>>,
    pub(crate) snapshot: Option<Arc<dyn ErasedSnapshot>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("eager", &self.eager)
            .field("outside", &matches!(self.source, Source::Outside(_)))
            .field("snapshotable", &self.snapshot.is_some())
            .finish_non_exhaustive()
    }
}

fn erase<T: ?Sized + Send + Sync + 'static>(instance: Arc<T>) -> Erased {
    Arc::new(instance)
}

fn erase_hook<T, F>(hook: impl Fn(Arc<T>) -> F + Send + Sync + 'static) -> Arc<Hook>
where
    T: ?Sized + Send + Sync + 'static,
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    Arc::new(move |name, instance| Ok(Box::pin(hook(typed::<T>(name, instance)?))))
}
