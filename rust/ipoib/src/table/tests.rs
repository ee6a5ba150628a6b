use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

impl Key for u8 {
    fn hash(&self, seed: u64) -> u64 {
        // Three buckets only, so that chains are walked.
        mix(seed, u64::from(*self)) % 3
    }

    /// Families of four.
    fn kin_hash(&self, seed: u64) -> u64 {
        mix(seed, u64::from(*self / 4))
    }
}

type Small = Table<u8, u32, Vec<Slot<u8, u32, 2>>, 2>;

fn table(capacity: usize) -> Small {
    Table::new((0..capacity).map(|_| Slot::default()).collect(), 7)
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u8),
    Remove(u8),
    Deadline(u8, Option<u64>),
    Push(usize, u8),
    Unlist(usize, u8),
    Pop(usize),
    Due(u64),
    Grow(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..12;
    prop_oneof![
        key.clone().prop_map(Op::Insert),
        key.clone().prop_map(Op::Remove),
        (key.clone(), prop::option::of(0u64..50)).prop_map(|(k, t)| Op::Deadline(k, t)),
        (0usize..2, key.clone()).prop_map(|(l, k)| Op::Push(l, k)),
        (0usize..2, key).prop_map(|(l, k)| Op::Unlist(l, k)),
        (0usize..2).prop_map(Op::Pop),
        (0u64..50).prop_map(Op::Due),
        (0usize..12).prop_map(Op::Grow),
    ]
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u8, Option<u64>>,
    lists: [Vec<u8>; 2],
}

impl Model {
    fn forget(&mut self, key: u8) {
        self.entries.remove(&key);
        self.lists.iter_mut().for_each(|l| l.retain(|k| *k != key));
    }
}

fn apply(table: &mut Small, model: &mut Model, op: Op) -> Result<(), TestCaseError> {
    match op {
        Op::Insert(key) if table.find(&key).is_none() => {
            let fits = model.entries.len() < table.capacity();
            prop_assert_eq!(table.insert(key, u32::from(key)).is_some(), fits);
            if fits {
                model.entries.insert(key, None);
            }
        }
        Op::Insert(_) => {}
        Op::Remove(key) => {
            let removed = table.find(&key).and_then(|id| table.remove(id));
            prop_assert_eq!(removed.map(|(k, _)| k), model.entries.contains_key(&key).then_some(key));
            model.forget(key);
        }
        Op::Deadline(key, at) => {
            if let Some(id) = table.find(&key) {
                table.set_deadline(id, at.map(Instant::from_nanos));
                model.entries.insert(key, at);
            }
        }
        Op::Push(list, key) => {
            if let Some(id) = table.find(&key) {
                table.push_back(list, id);
                model.lists[list].retain(|k| *k != key);
                model.lists[list].push(key);
            }
        }
        Op::Unlist(list, key) => {
            if let Some(id) = table.find(&key) {
                table.unlist(list, id);
                model.lists[list].retain(|k| *k != key);
            }
        }
        Op::Pop(list) => {
            let got = table.pop_front(list).and_then(|id| table.key(id));
            let want = (!model.lists[list].is_empty()).then(|| model.lists[list].remove(0));
            prop_assert_eq!(got, want);
        }
        Op::Due(now) => {
            while let Some(id) = table.pop_due(Instant::from_nanos(now)) {
                let key = table.key(id).unwrap();
                let at = model.entries.insert(key, None).flatten();
                prop_assert!(at.is_some_and(|at| at <= now));
            }
            prop_assert!(model.entries.values().flatten().all(|at| *at > now));
        }
        Op::Grow(capacity) => {
            let before = table.capacity();
            let left = table.grow((0..capacity).map(|_| Slot::default()).collect());
            prop_assert_eq!(table.capacity(), before.max(capacity));
            prop_assert_eq!(left.len(), before.min(capacity));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_table_behaves_as_a_map_with_lists_and_deadlines(ops in prop::collection::vec(op(), 0..200)) {
        let (mut table, mut model) = (table(4), Model::default());
        for op in ops {
            apply(&mut table, &mut model, op)?;
            prop_assert_eq!(table.len(), model.entries.len());
            let earliest = model.entries.values().flatten().min().copied();
            prop_assert_eq!(table.next_deadline().map(Instant::as_nanos), earliest);
            for key in 0..12 {
                prop_assert_eq!(table.find(&key).is_some(), model.entries.contains_key(&key));
                let siblings = core::iter::successors(table.siblings(&key), |id| table.next_sibling(*id));
                let mut siblings: Vec<u8> = siblings.filter_map(|id| table.key(id)).filter(|siblings| siblings / 4 == key / 4).collect();
                siblings.sort();
                let all: Vec<u8> = model.entries.keys().copied().filter(|siblings| siblings / 4 == key / 4).collect();
                prop_assert_eq!(siblings, all);
            }
        }
    }
}

#[test]
fn a_table_without_slots_holds_nothing() {
    let mut none = table(0);
    assert_eq!(none.insert(1, 1), None);
    assert_eq!(none.find(&1), None);
    assert_eq!(none.next_deadline(), None);
}
