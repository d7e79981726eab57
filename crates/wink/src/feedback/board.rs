//! The board: who is asked when, and what they said before.
//!
//! Counting follows the log, which keeps count itself: nothing here reads it, and other executors on the same session
//! are counted as well.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use super::given::{Feedback, FeedbackGiven};
use super::trigger::Trigger;
use super::{FeedbackContext, FeedbackProvider};
use crate::filesystem::{Filesystem, FilesystemExt};
use crate::limits::{BudgetTracker, Deadline};
use crate::resource::{Glance, ResourceContext};
use crate::session::{Session, ToolInvoked};
use crate::support::lock::lock;

/// The providers of an executor.
pub(crate) struct Board {
    posts: Vec<Post>,
    started: Timestamp,
    seen: Mutex<Seen>,
}

/// A provider in its place.
struct Post {
    /// Under which it is counted: its name, with a number if it is not the first of that name.
    key: Arc<str>,
    trigger: Trigger,
    provider: Arc<dyn FeedbackProvider>,
}

/// What is known of the log, and who was asked.
#[derive(Default)]
struct Seen {
    /// Calls of the prompt.
    calls: u64,
    posts: Vec<Asked>,
}

/// When a provider was last asked.
#[derive(Clone, Default)]
struct Asked {
    calls: u64,
    time: Option<Timestamp>,
    files: Vec<Arc<str>>,
}

/// Where the call took place.
pub(crate) struct Around<'a> {
    pub(crate) session: &'a Session,
    pub(crate) resources: &'a ResourceContext,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) budget: Option<&'a BudgetTracker>,
}

/// A provider whose trigger fired, and the files that made it fire.
pub(crate) struct Due<'a> {
    post: &'a Post,
    calls: u64,
    files: Vec<Arc<str>>,
    known_files: Vec<Arc<str>>,
}

impl Board {
    pub(crate) fn new(providers: Vec<(Trigger, Arc<dyn FeedbackProvider>)>, session: &Session) -> Self {
        if !providers.is_empty() {
            // What a store has of it is read when it is first named: now, and not in a call.
            let _ = session.slice::<FeedbackGiven>();
        }
        let mut posts: Vec<Post> = Vec::with_capacity(providers.len());
        for (trigger, provider) in providers {
            let name = provider.name();
            let before = posts.iter().filter(|post| post.provider.name() == name).count();
            let key = if before == 0 { name.into() } else { format!("{name}#{}", before + 1).into() };
            posts.push(Post { key, trigger, provider });
        }
        Self { posts, started: session.clock().now(), seen: Mutex::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    /// The providers that have to be asked after this call. Their triggers start again.
    pub(crate) async fn due(&self, around: &Around<'_>, event: &ToolInvoked) -> Vec<Due<'_>> {
        let watched = self.watched(around.session, &event.prompt);
        let there = there(watched, around.resources, event.success).await;
        let now = around.session.clock().now();
        let mut seen = lock(&self.seen);
        seen.catch_up(&self.posts, around.session, &event.prompt);
        let calls = seen.calls;
        let mut due = Vec::new();
        for (post, asked) in self.posts.iter().zip(&mut seen.posts) {
            let new = |file: &&Arc<str>| !asked.files.contains(*file) && there.contains(*file);
            let files: Vec<Arc<str>> = post.trigger.files.iter().filter(new).cloned().collect();
            let counted = post.trigger.calls.is_some_and(|every| calls.saturating_sub(asked.calls) >= every);
            let waited = post.trigger.interval.is_some_and(|interval| {
                asked.time.is_none_or(|last| {
                    // A clock that was set back must not silence anybody.
                    let since = now.duration_since(last);
                    since.is_negative() || since.unsigned_abs() >= interval
                })
            });
            if counted || waited || !files.is_empty() {
                asked.calls = calls;
                asked.time = Some(now);
                asked.files.extend(files.iter().cloned());
                due.push(Due { post, calls, files, known_files: asked.files.clone() });
            }
        }
        due
    }

    /// Asks a provider.
    pub(crate) async fn ask(
        &self,
        due: &Due<'_>,
        around: &Around<'_>,
        event: &ToolInvoked,
    ) -> Result<Option<Feedback>, crate::resource::BoxError> {
        let cx = FeedbackContext {
            session: around.session,
            event,
            calls: due.calls,
            started: self.started,
            deadline: around.deadline,
            budget: around.budget,
        };
        due.post.provider.feedback(&cx).await
    }

    /// The files that have not appeared yet, as far as is known.
    fn watched(&self, session: &Session, prompt: &Arc<str>) -> Vec<Arc<str>> {
        if self.posts.iter().all(|post| post.trigger.files.is_empty()) {
            return Vec::new();
        }
        let mut seen = lock(&self.seen);
        seen.catch_up(&self.posts, session, prompt);
        let places = self.posts.iter().zip(&seen.posts);
        let new = places.flat_map(|(post, asked)| {
            post.trigger.files.iter().filter(|file| !asked.files.contains(*file)).cloned()
        });
        new.collect()
    }
}

/// Those of the files that are there. Looking for them after a call that failed leaves nothing.
async fn there(watched: Vec<Arc<str>>, resources: &ResourceContext, success: bool) -> Vec<Arc<str>> {
    if watched.is_empty() {
        return watched;
    }
    let glance = Glance::default();
    let there = there_at(watched, resources, &glance).await;
    glance.end(success).await;
    there
}

async fn there_at(watched: Vec<Arc<str>>, resources: &ResourceContext, glance: &Glance) -> Vec<Arc<str>> {
    let files = match glance.get_optional::<dyn Filesystem>(resources).await {
        Ok(Some(files)) => files,
        Ok(None) => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "feedback cannot look for files");
            return Vec::new();
        }
    };
    let mut there = Vec::new();
    for file in watched {
        match files.exists_at(&file).await {
            Ok(true) => there.push(file),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, file = &*file, "feedback cannot look for a file"),
        }
    }
    there
}

impl Due<'_> {
    /// Who is to be asked.
    pub(crate) fn provider(&self) -> &Arc<str> {
        &self.post.key
    }

    /// What the log keeps of what it said.
    pub(crate) fn given(&self, feedback: Feedback, event: &ToolInvoked, time: Timestamp) -> FeedbackGiven {
        FeedbackGiven {
            provider: Arc::clone(&self.post.key),
            prompt: Arc::clone(&event.prompt),
            invocation: event.id,
            time,
            feedback,
            calls: self.calls,
            files: self.files.clone(),
            known_files: self.known_files.clone(),
        }
    }
}

impl Seen {
    /// Looks up what the log has counted.
    fn catch_up(&mut self, posts: &[Post], session: &Session, prompt: &Arc<str>) {
        let calls = session.counted::<ToolInvoked>([prompt, prompt]).map_or(0, |(calls, _)| calls);
        if calls < self.calls || self.posts.len() != posts.len() {
            // The session was reset, or this is the first look.
            self.posts = vec![Asked::default(); posts.len()];
        }
        self.calls = calls;
        for (post, asked) in posts.iter().zip(&mut self.posts) {
            let Some((_, Some(given))) = session.counted::<FeedbackGiven>([prompt, &post.key]) else {
                continue;
            };
            asked.calls = asked.calls.max(given.calls);
            asked.time = asked.time.max(Some(given.time));
            let new = |file: &&Arc<str>| !asked.files.contains(*file);
            let new: Vec<_> = given.known_files.iter().filter(new).cloned().collect();
            asked.files.extend(new);
        }
    }
}
