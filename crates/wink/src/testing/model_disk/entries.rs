//! Names in directories: what each has been since it was last durable.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use crate::testing::Dice;

#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    all: BTreeMap<Place, History>,
    /// How many names there are for each inode.
    names: HashMap<u64, u64>,
    last: u64,
    /// Which changes are durable only when others are: by the number of the change, the others and their places.
    needs: HashMap<u64, Vec<(u64, Place)>>,
}

/// A directory, and a name in it.
type Place = (u64, OsString);

/// What a name stood for, and stands for: the first is durable, the last is what programs see.
#[derive(Debug, Clone)]
struct History {
    /// Each with the number of the change that made it so.
    values: Vec<(u64, Option<u64>)>,
}

impl History {
    fn now(&self) -> Option<u64> {
        self.values.last().and_then(|(_, value)| *value)
    }
}

impl Entries {
    pub(super) fn get(&self, dir: u64, name: &OsStr) -> Option<u64> {
        self.all.get(&(dir, name.to_owned())).and_then(History::now)
    }

    pub(super) fn of(&self, dir: u64) -> Vec<(OsString, u64)> {
        let range = self.all.range((dir, OsString::new())..(dir + 1, OsString::new()));
        range.filter_map(|((_, name), history)| Some((name.clone(), history.now()?))).collect()
    }

    pub(super) fn is_empty(&self, dir: u64) -> bool {
        self.of(dir).is_empty()
    }

    pub(super) fn names_of(&self, inode: u64) -> u64 {
        self.names.get(&inode).copied().unwrap_or(0)
    }

    /// A name stands for something else. Gives the number of the change.
    pub(super) fn set(&mut self, dir: u64, name: &OsStr, value: Option<u64>) -> u64 {
        self.last += 1;
        let history =
            self.all.entry((dir, name.to_owned())).or_insert_with(|| History { values: vec![(0, None)] });
        let before = history.now();
        history.values.push((self.last, value));
        if let Some(count) = before.and_then(|inode| self.names.get_mut(&inode)) {
            *count -= 1;
        }
        if let Some(inode) = value {
            *self.names.entry(inode).or_default() += 1;
        }
        self.last
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), inode: u64, is_dir: bool) {
        let added = self.set(to.0, to.1, Some(inode));
        let removed = self.set(from.0, from.1, None);
        self.needs.insert(removed, vec![(added, (to.0, to.1.to_owned()))]);
        if is_dir {
            self.needs.insert(added, vec![(removed, (from.0, from.1.to_owned()))]);
        }
    }

    /// An empty directory loses its name: durably only when all that was in it is durably somewhere else.
    pub(super) fn remove_dir(&mut self, dir: u64, name: &OsStr, inode: u64) {
        let range = self.all.range((inode, OsString::new())..(inode + 1, OsString::new()));
        let left = range.map(|(place, _)| (u64::MAX, place.clone())).collect();
        let removed = self.set(dir, name, None);
        self.needs.insert(removed, left);
    }

    /// What programs see in this directory becomes durable.
    pub(super) fn sync(&mut self, dir: u64) {
        let places: Vec<Place> = self
            .all
            .range((dir, OsString::new())..(dir + 1, OsString::new()))
            .map(|(place, _)| place.clone())
            .collect();
        for place in places {
            self.persist(&place, u64::MAX);
        }
    }

    pub(super) fn sync_all(&mut self) {
        let places: Vec<Place> = self.all.keys().cloned().collect();
        places.iter().for_each(|place| self.persist(place, u64::MAX));
    }

    /// Any of the states of each name may be what is found.
    pub(super) fn crash(&mut self, chance: &mut Dice) {
        let places: Vec<Place> = self.all.keys().cloned().collect();
        for place in &places {
            let Some(history) = self.all.get(place) else { continue };
            let chosen = history.values.get(chance.below(history.values.len()));
            if let Some((change, _)) = chosen {
                self.persist(place, *change);
            }
        }
        self.names.clear();
        self.needs.clear();
        for history in self.all.values_mut() {
            history.values.truncate(1);
            if let Some(inode) = history.now() {
                *self.names.entry(inode).or_default() += 1;
            }
        }
        self.all.retain(|_, history| history.now().is_some());
    }

    /// All changes to a name up to this one are durable, and with them those that they need.
    fn persist(&mut self, place: &Place, change: u64) {
        let mut todo = vec![(place.clone(), change)];
        while let Some((place, change)) = todo.pop() {
            let Some(history) = self.all.get_mut(&place) else { continue };
            let past = history.values.iter().take_while(|(number, _)| *number <= change).count();
            // The first was durable already, and what it needs as well.
            for (number, _) in history.values.drain(..past.saturating_sub(1)).skip(1).collect::<Vec<_>>() {
                todo.extend(
                    self.needs.remove(&number).into_iter().flatten().map(|(change, place)| (place, change)),
                );
            }
            if past > 1
                && let Some((number, _)) = history.values.first()
            {
                todo.extend(
                    self.needs.remove(number).into_iter().flatten().map(|(change, place)| (place, change)),
                );
            }
        }
    }
}
