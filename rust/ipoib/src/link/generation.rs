//! Which queue pair something is about.
//!
//! Whatever is made for a link has a [`Generation`]: its queue pairs, each time that they begin to carry traffic, and each one that
//! takes the place of a single ring's. The link draws them and says which one stands ([`super::Link::stands`]). Everything else -
//! queues, failures, attachments, answers - keeps the generation that it belongs to, and compares.

use core::num::NonZeroU64;

/// Unlike every other of the same link; what is drawn later is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(NonZeroU64);

impl Generation {
    /// As a number, from 1 on.
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

/// A link's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generations(Option<Generation>);

impl Generations {
    /// Another one.
    pub fn draw(&mut self) -> Generation {
        let next = self.0.map_or(NonZeroU64::MIN, |last| last.0.saturating_add(1));
        *self.0.insert(Generation(next))
    }

    /// The last that was drawn: all until now are it or before it.
    pub fn latest(&self) -> Option<Generation> {
        self.0
    }
}

/// One side of a link's traffic, as a send queue or the receive side keeps it under its own lock: what it runs with while a generation
/// carries traffic.
///
/// A side is opened by a worker that has made `T` for a generation, and closed by whoever ends the traffic. These are not in step: a
/// generation can be over before its side is opened, and is then not opened any more.
#[derive(Debug)]
pub struct Side<T> {
    state: State<T>,
    /// This generation and all before it are over.
    over: Option<Generation>,
}

#[derive(Debug)]
enum State<T> {
    Idle(Idle),
    Open(Generation, T),
}

/// Apart from [`State`], so that whether a side is open is one comparison.
#[derive(Clone, Copy, Debug)]
enum Idle {
    /// There is nothing, and nothing is under way.
    Closed,
    /// What this generation ran with is being replaced.
    Suspended(Generation),
}

impl<T> Default for Side<T> {
    fn default() -> Self {
        Self { state: State::Idle(Idle::Closed), over: None }
    }
}

impl<T> Side<T> {
    /// Runs with this from now on; what it ran with before comes back. If the generation is over, `with` itself does.
    pub fn open(&mut self, generation: Generation, with: T) -> Result<Option<T>, T> {
        if Some(generation) <= self.over {
            return Err(with);
        }
        match core::mem::replace(&mut self.state, State::Open(generation, with)) {
            State::Open(_, before) => Ok(Some(before)),
            State::Idle(_) => Ok(None),
        }
    }

    /// Ends every generation up to this one. What it ran with, if that was one of them.
    pub fn close(&mut self, up_to: Option<Generation>) -> Option<T> {
        self.over = self.over.max(up_to);
        match &self.state {
            State::Open(generation, _) | State::Idle(Idle::Suspended(generation))
                if Some(*generation) > up_to =>
            {
                None
            }
            _ => self.end(Idle::Closed),
        }
    }

    /// Ends the generation that it runs with, for another one that takes its place.
    pub fn suspend(&mut self) -> Option<T> {
        let generation = self.generation()?;
        self.over = self.over.max(Some(generation));
        self.end(Idle::Suspended(generation))
    }

    fn end(&mut self, idle: Idle) -> Option<T> {
        match core::mem::replace(&mut self.state, State::Idle(idle)) {
            State::Open(_, with) => Some(with),
            State::Idle(_) => None,
        }
    }

    /// What it runs with.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        match &self.state {
            State::Open(_, with) => Some(with),
            State::Idle(_) => None,
        }
    }

    /// What it runs with.
    #[inline(always)]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        match &mut self.state {
            State::Open(_, with) => Some(with),
            State::Idle(_) => None,
        }
    }

    /// What it runs with, and the generation of that.
    #[inline(always)]
    pub fn running(&mut self) -> Option<(Generation, &mut T)> {
        match &mut self.state {
            State::Open(generation, with) => Some((*generation, with)),
            State::Idle(_) => None,
        }
    }

    /// The generation that it runs with.
    pub fn generation(&self) -> Option<Generation> {
        match &self.state {
            State::Open(generation, _) => Some(*generation),
            State::Idle(_) => None,
        }
    }

    /// Whether another generation is to take the place of the one before.
    pub fn is_suspended(&self) -> bool {
        matches!(self.state, State::Idle(Idle::Suspended(_)))
    }
}
