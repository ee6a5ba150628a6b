//! What is remembered of each eight bytes of memory: the accesses that a later one may race with.
//!
//! Four for each eight bytes, as ThreadSanitizer has them (Serebryany and others, 2011): an access that comes after another of the same
//! bytes takes its place; of more than four that nothing orders, one is forgotten.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::clock::{Clock, Left, Slot};

const CELLS: usize = 4;
/// Bytes of memory to a block of the shadow.
const BLOCK: usize = 256;
const WORD: usize = 8;

/// What is done to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// It may change.
    pub writes: bool,
    /// By an atomic operation.
    pub atomic: bool,
}

/// An access that is remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) pc: u32,
    pub(super) time: u32,
    pub(super) slot: Slot,
    /// A bit per byte; none: the cell is free.
    mask: u8,
    kind: u8,
}

const WRITES: u8 = 1;
const ATOMIC: u8 = 2;

impl Cell {
    pub(super) fn kind(self) -> Kind {
        Kind { writes: self.kind & WRITES != 0, atomic: self.kind & ATOMIC != 0 }
    }

    /// Would a later access that races with the one before race with this one, too, if this comes after it?
    fn stands_for(self, before: Self) -> bool {
        before.mask & !self.mask == 0
            && (self.kind & WRITES != 0 || before.kind & WRITES == 0)
            && (self.kind & ATOMIC == 0 || before.kind & ATOMIC != 0)
    }

    fn may_race(self, other: Self) -> bool {
        (self.kind | other.kind) & WRITES != 0 && self.kind & other.kind & ATOMIC == 0
    }
}

struct Block {
    words: [[Cell; CELLS]; BLOCK / WORD],
    /// What atomic operations have left, by the number of their word.
    left: Vec<(u8, Left)>,
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Self { words: [[Cell::default(); CELLS]; BLOCK / WORD], left: Vec::new() })
    }
}

#[derive(Default)]
pub(super) struct Shadow {
    blocks: FxHashMap<usize, Box<Block>>,
    /// Which cell gives way next when all are taken.
    turn: usize,
}

/// Who accesses, and where from.
pub(super) struct Accessor<'a> {
    pub(super) slot: Slot,
    pub(super) clock: &'a Clock,
    pub(super) pc: u32,
    pub(super) kind: Kind,
}

impl Shadow {
    /// Remembers the access; what it races with, if anything: the first such access, and the first byte of the word.
    pub(super) fn access(&mut self, addr: usize, len: usize, by: &Accessor<'_>) -> Option<(usize, Cell)> {
        let kind = (u8::from(by.kind.writes) * WRITES) | (u8::from(by.kind.atomic) * ATOMIC);
        let time = by.clock.of(by.slot);
        let mut found = None;
        for (number, within) in blocks_of(addr, len) {
            let block = self.blocks.entry(number).or_insert_with(Block::new);
            let mut at = within.start;
            while at < within.end {
                let next = ((at / WORD + 1) * WORD).min(within.end);
                let mask = (((1u16 << (next - at)) - 1) << (at % WORD)) as u8;
                let cell = Cell { pc: by.pc, time, slot: by.slot, mask, kind };
                let race = remember(&mut block.words[at / WORD], cell, by.clock, &mut self.turn);
                found = found.or(race.map(|race| (number * BLOCK + at, race)));
                at = next;
            }
        }
        found
    }

    /// What accesses `len` bytes from `addr` on would race with if they were freed now.
    pub(super) fn outstanding(&self, addr: usize, len: usize, by: &Accessor<'_>) -> Option<(usize, Cell)> {
        let freeing = Cell { mask: u8::MAX, kind: WRITES, slot: by.slot, ..Cell::default() };
        blocks_of(addr, len).find_map(|(number, within)| {
            let block = self.blocks.get(&number)?;
            let words = within.start / WORD..within.end.div_ceil(WORD);
            words.into_iter().find_map(|word| {
                let cell = block.words[word].iter().find(|cell| races(**cell, freeing, by.clock))?;
                Some((number * BLOCK + word * WORD, *cell))
            })
        })
    }

    /// Forgets everything about `len` bytes from `addr` on.
    pub(super) fn clear(&mut self, addr: usize, len: usize) {
        for (number, within) in blocks_of(addr, len) {
            if within == (0..BLOCK) {
                self.blocks.remove(&number);
                continue;
            }
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            block.words[within.start / WORD..within.end.div_ceil(WORD)].fill([Cell::default(); CELLS]);
            block.left.retain(|(word, _)| !within.contains(&(usize::from(*word) * WORD)));
        }
    }

    /// What atomic operations on the word at `addr` have left.
    pub(super) fn left(&mut self, addr: usize) -> &mut Left {
        let block = self.blocks.entry(addr / BLOCK).or_insert_with(Block::new);
        let word = (addr % BLOCK / WORD) as u8;
        let at = block.left.iter().position(|(known, _)| *known == word).unwrap_or_else(|| {
            block.left.push((word, Left::default()));
            block.left.len() - 1
        });
        &mut block.left[at].1
    }
}

/// The blocks that `len` bytes from `addr` on lie in, by their numbers, and which of each one's bytes.
fn blocks_of(addr: usize, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = addr + len;
    (addr / BLOCK..end.div_ceil(BLOCK)).map(move |number| {
        let start = number * BLOCK;
        (number, addr.max(start) - start..end.min(start + BLOCK) - start)
    })
}

fn races(cell: Cell, new: Cell, clock: &Clock) -> bool {
    cell.mask & new.mask != 0
        && cell.slot != new.slot
        && cell.may_race(new)
        && clock.of(cell.slot) < cell.time
}

fn remember(cells: &mut [Cell; CELLS], new: Cell, clock: &Clock, turn: &mut usize) -> Option<Cell> {
    let mut place = None;
    let mut race = None;
    for (n, cell) in cells.iter_mut().enumerate() {
        if cell.mask == 0 {
            place = place.or(Some(n));
            continue;
        }
        if cell.mask & new.mask == 0 {
            continue;
        }
        let own = cell.slot == new.slot;
        if own && cell.time == new.time && cell.stands_for(new) {
            return None;
        }
        if races(*cell, new, clock) {
            race = Some(*cell);
        }
        if (own || clock.of(cell.slot) >= cell.time) && new.stands_for(*cell) {
            *cell = Cell::default();
            place = place.or(Some(n));
        }
    }
    let place = place.unwrap_or_else(|| {
        *turn = (*turn + 1) % CELLS;
        *turn
    });
    cells[place] = new;
    race
}
