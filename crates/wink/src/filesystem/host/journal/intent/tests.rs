use proptest::prelude::*;

use super::*;

fn intent(path: PathBuf) -> Intent {
    let stamp = Stamp {
        kind: EntryKind::File,
        dev: u64::MAX,
        ino: 2,
        len: 3,
        mode: 0o644,
        modified: i128::from(i64::MAX) * 1_000,
        owner: Some(OwnedBy { user: 1, group: u32::MAX }),
    };
    let meta = MetaRecord { mode: 0o755, modified: -1, owner: None };
    Intent {
        id: JournalId::fresh(),
        time: Timestamp::UNIX_EPOCH,
        settled_by: SettledBy::Store,
        steps: vec![
            Record::Take { path: path.clone(), origin: path.clone(), slot: 7, before: stamp.clone() },
            Record::Put {
                path: path.clone(),
                origin: path.clone(),
                from: From::Staged(path.clone()),
                ours: stamp.clone(),
                replaced: Some((stamp.clone(), 3)),
            },
            Record::Meta { path: path.clone(), origin: path.clone(), before: stamp.clone(), after: meta },
        ],
        parents: vec![Parent { path: path.clone(), before: stamp }],
        lost: vec![Lost { path }],
    }
}

proptest! {
    #[test]
    fn any_path_survives(name in proptest::collection::vec(any::<u8>(), 0..20)) {
        let name = OsString::from_vec(name);
        prop_assert_eq!(unescape(&escape(&name)), Some(name.clone()));
        let intent = intent(PathBuf::from(name));
        prop_assert_eq!(Intent::decode(&intent.encode().unwrap()), Ok(Some(intent)));
    }
}

#[test]
fn what_is_escaped_can_be_read() {
    let name = OsString::from_vec(b"a\\x41\xff/\xc3\xa4".to_vec());
    assert_eq!(escape(&name), "a\\\\x41\\xff/ä");
    assert_eq!(unescape("\\x4"), None);
    assert_eq!(unescape("\\q"), None);
}

#[test]
fn a_torn_intent_never_happened() {
    let text = intent("a/b".into()).encode().unwrap();
    for len in 0..text.len() {
        assert_eq!(Intent::decode(&text[..len]), Ok(None), "{len}");
        let mut zeroed = text.clone();
        zeroed[len..].fill(0);
        assert_eq!(Intent::decode(&zeroed), Ok(None), "{len}");
    }
}

#[test]
fn an_intent_of_a_later_version_is_not_taken_for_a_torn_one() {
    let text = intent("a".into()).encode().unwrap();
    let later = [b"wink-journal 2", &text[b"wink-journal 1".len()..]].concat();
    assert_eq!(Intent::decode(&later), Err("it is of version 2".to_owned()));
}
