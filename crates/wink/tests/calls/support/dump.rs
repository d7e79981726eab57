//! A dump of everything in the world that a call could have changed. It is read twice: through public reads, and
//! out of the bytes that the store wrote, which are decoded here and not by the code under test.

use std::collections::BTreeMap;

use serde_json::Value;
use wink::filesystem::{EntryKind, FsPath};
use wink::resource::Shared;
use wink::session::{CallStat, Session, SliceType};
use wink::store::{LedgerRow, LedgerState, Rows, Store};
use wink::testing::filesystem_tree;

use super::{Fresh, Note, Receipt, Scratch, Setting, Stock, TOOLS, Tally, World};

/// Everything in the world that a call could have changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    pub slices: BTreeMap<&'static str, Vec<Value>>,
    pub files: BTreeMap<FsPath, Entry>,
    pub counter: u32,
    /// The singleton's value, and whether it exists; it is never built by looking.
    pub tally: Option<u32>,
    pub calls: BTreeMap<&'static str, CallStat>,
    /// What policies remember, by policy and item. There is no other public read of it than a snapshot.
    pub policies: Value,
    pub ledger: Vec<LedgerRow>,
    /// What is in the bytes, on the store that has nothing else.
    pub stored: Option<Stored>,
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub kind: EntryKind,
    pub mode: u32,
    /// None for a directory.
    pub bytes: Option<Vec<u8>>,
}

impl Entry {
    pub fn file(bytes: &[u8]) -> Self {
        Self { kind: EntryKind::File, mode: 0o644, bytes: Some(bytes.to_vec()) }
    }

    pub fn dir() -> Self {
        Self { kind: EntryKind::Directory, mode: 0o755, bytes: None }
    }
}

/// What the store's bytes say, in the order in which they say it: nothing that was undone is in there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// Every change of STATE, of policies and of the index of calls, by stream.
    pub state: Vec<(String, Value)>,
    /// Calls that began and did not end.
    pub open: Vec<Value>,
    /// The ledger's rows, by key.
    pub ledger: BTreeMap<String, Value>,
}

impl Stored {
    pub fn of_bytes(mut bytes: &[u8]) -> Self {
        let mut stored = Self::default();
        while !bytes.is_empty() {
            // Length, two checks that do not matter here, and the entry itself.
            let length = usize::try_from(u32::from_le_bytes(bytes[..4].try_into().unwrap())).unwrap();
            let (entry, rest) = bytes[16..].split_at(length);
            stored.apply(&serde_json::from_slice(entry).unwrap());
            bytes = rest;
        }
        stored
    }

    fn apply(&mut self, entry: &Value) {
        let (tag, body) = entry.as_object().unwrap().iter().next().unwrap();
        match tag.as_str() {
            "Begin" => self.open.push(body["mark"]["invocation"].clone()),
            "Commit" => {
                let batch = &body["batch"];
                batch["records"].as_array().unwrap().iter().for_each(|record| self.record(record));
                self.open.retain(|mark| *mark != batch["ends"]);
                if let Some(change) = batch["ledger"].as_object() {
                    self.set(change["from"]["key"].as_str().unwrap(), &change["to"]);
                }
            }
            "Put" => self.set(body["key"].as_str().unwrap(), body),
            "Removed" => {
                body.as_array().unwrap().iter().for_each(|key| self.set(key.as_str().unwrap(), &Value::Null));
            }
            // It says nothing that the records do not; and a start says nothing of what is kept.
            "Summary" | "Start" => {}
            tag => panic!("an entry {tag:?}"),
        }
    }

    fn record(&mut self, record: &Value) {
        let bytes: Vec<u8> = serde_json::from_value(record["bytes"].clone()).unwrap();
        let change: Value = serde_json::from_slice(&bytes).unwrap();
        // What the log says is compared event by event.
        if change["kind"] != "log" {
            self.state.push((record["stream"].as_str().unwrap().to_owned(), change));
        }
    }

    fn set(&mut self, key: &str, row: &Value) {
        match row.is_null() {
            true => self.ledger.remove(key),
            false => self.ledger.insert(key.to_owned(), row.clone()),
        };
    }
}

impl Dump {
    /// Takes out the entries in doubt, which are all that a failed call may leave behind.
    pub fn take_doubts(&mut self, before: &Self) -> Vec<LedgerRow> {
        let is_doubt = |row: &LedgerRow| matches!(row.state, LedgerState::InDoubt { .. });
        let (doubts, rest): (Vec<_>, Vec<_>) = self.ledger.drain(..).partition(is_doubt);
        self.ledger = rest;
        if let (Some(stored), Some(before)) = (&mut self.stored, &before.stored) {
            let new = stored.ledger.extract_if(.., |key, _| !before.ledger.contains_key(key));
            let new: Vec<_> = new.map(|(_, row)| serde_json::from_value::<LedgerRow>(row).unwrap()).collect();
            assert_eq!(new, doubts, "the bytes say the same");
        }
        doubts
    }

    /// Without the ids and times that every run has of its own.
    #[must_use]
    pub fn timeless(mut self) -> Self {
        for row in &mut self.ledger {
            if let LedgerState::Recorded { effect, expires_at } = &mut row.state {
                *expires_at = None;
                for field in ["effect_id", "created_at", "expires_at"] {
                    effect[field] = "any".into();
                }
            }
        }
        if let Some(stored) = &mut self.stored {
            assert_eq!(stored.ledger.len(), self.ledger.len(), "the bytes have the same rows");
            stored.ledger.clear();
            for (stream, change) in &mut stored.state {
                if stream == "wink.calls" {
                    change["success"]["at"] = "any".into();
                }
            }
        }
        self.calls.values_mut().for_each(|stat| stat.last = super::start());
        self
    }
}

impl World {
    /// Everything that a call could have changed, and that a rollback has to put back.
    pub async fn dump(&self) -> Dump {
        let stored = self.bytes.as_ref().map(|bytes| Stored::of_bytes(&bytes.bytes()));
        Dump { stored, ..self.seen().await }
    }

    /// The part of the dump that goes through public reads.
    pub async fn seen(&self) -> Dump {
        fn items<T: SliceType>(session: &Session) -> (&'static str, Vec<Value>) {
            let items =
                session.slice::<T>().iter().map(|item| serde_json::to_value(&*item).unwrap()).collect();
            (T::NAME, items)
        }
        let session = &self.session;
        let slices = [
            items::<Note>(session),
            items::<Stock>(session),
            items::<Setting>(session),
            items::<Scratch>(session),
            items::<Fresh>(session),
            items::<Receipt>(session),
        ];
        let calls = TOOLS.iter().filter_map(|tool| Some((*tool, session.calls(tool)?)));
        let mut files = BTreeMap::new();
        for (path, bytes) in filesystem_tree(&*self.files).await {
            let found = self.files.stat(&path).await.unwrap();
            files.insert(path, Entry { kind: found.kind, mode: found.mode, bytes });
        }
        Dump {
            slices: slices.into_iter().collect(),
            files,
            counter: *self.counter.read(),
            tally: self.resources.ready::<Shared<Tally>>().unwrap().map(|tally| tally.read().0),
            calls: calls.collect(),
            policies: session.snapshot().to_json().unwrap()["policies"].clone(),
            ledger: self.store.rows(Rows::All).await.unwrap(),
            stored: None,
        }
    }
}
