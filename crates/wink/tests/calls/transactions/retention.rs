//! Nothing is retained of calls that are over.

use std::sync::{Arc, Weak};

use serde::Deserialize;
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::resource::{Binding, BoxError, ResourceRegistry, ResourceSnapshot, Shared, Snapshotable};
use wink::session::{Session, replace_latest};
use wink::transaction::Transaction;

use super::world::{Note, note};

/// A resource of which every copy and every snapshot holds the token.
struct Counted {
    token: Arc<()>,
    value: Shared<u32>,
}

#[derive(serde::Serialize)]
struct Kept {
    #[serde(skip)]
    _token: Arc<()>,
    value: u32,
}

impl Snapshotable for Counted {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(Kept { _token: self.token.clone(), value: *self.value.read() }))
    }

    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError> {
        self.value.set(snapshot.state::<Kept>().ok_or("not mine")?.value);
        Ok(())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self { token: self.token.clone(), value: Shared::new(*self.value.read()) })
    }

    fn decode(&self, json: &serde_json::Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(Kept { _token: self.token.clone(), value: u32::deserialize(json)? }))
    }
}

// case 90
#[tokio::test]
async fn successful_calls_leave_no_snapshots_behind() {
    let token = Arc::new(());
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
    let counted = Arc::new(Counted { token: token.clone(), value: Shared::new(0) });
    let shared = Arc::new(Shared::new(0_u32));
    let registry = ResourceRegistry::of((
        Binding::filesystem(files),
        Binding::instance(counted.clone()).named("counted").snapshotable(),
        Binding::instance(shared.clone()).named("shared").snapshotable(),
    ))
    .unwrap();
    let resources = registry.open().await.unwrap();
    let session = Session::new();
    session.register::<Note, Note>(replace_latest()).unwrap();
    let held = Arc::strong_count(&token);
    let mut earlier_note: Weak<Note> = Weak::new();
    let mut earlier_value: Weak<u32> = Weak::new();
    for number in 0..100 {
        let tx = Transaction::begin(&session, &resources, "call").await;
        let _ = tx.session().dispatch(note(&number.to_string())).unwrap();
        tx.resource::<Counted>().await.unwrap().value.set(number);
        tx.resource::<Shared<u32>>().await.unwrap().set(number);
        tx.filesystem().await.unwrap().write_text("a.txt", &number.to_string()).await.unwrap();
        let copy: Weak<dyn Filesystem> = Arc::downgrade(&tx.resource::<dyn Filesystem>().await.unwrap());
        assert!(copy.upgrade().is_some());
        tx.commit().await.unwrap();
        assert!(copy.upgrade().is_none(), "the copy of the workspace outlives its call");
        assert_eq!(Arc::strong_count(&token), held, "copies or snapshots outlive their call");
        assert!(earlier_note.upgrade().is_none(), "an earlier state of the session is retained");
        assert!(earlier_value.upgrade().is_none(), "an earlier state of a resource is retained");
        earlier_note = Arc::downgrade(&session.slice::<Note>().latest().unwrap());
        earlier_value = Arc::downgrade(&shared.read());
    }
    assert_eq!((session.slice::<Note>().len(), *counted.value.read(), *shared.read()), (1, 99, 99));
}
