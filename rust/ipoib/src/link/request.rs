//! A request that is out, and those whose answers nobody waits for any more.

use super::Ticket;

/// A request out, or answers of abandoned ones still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<T> {
    pub(super) out: Option<(Ticket, T)>,
    pub(super) abandoned: u8,
}

impl<T> Request<T> {
    pub(super) const NONE: Self = Self { out: None, abandoned: 0 };

    pub(super) fn abandon(&mut self) {
        if self.out.take().is_some() {
            self.abandoned = self.abandoned.saturating_add(1);
        }
    }

    pub(super) fn is_free(&self, limit: u8) -> bool {
        self.out.is_none() && self.abandoned < limit
    }

    /// Whether an answer is still to come, wanted or not.
    pub(super) fn is_awaited(&self) -> bool {
        self.out.is_some() || self.abandoned > 0
    }

    /// What an answer with this ticket answers, if it is still wanted.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<T> {
        match self.out.take() {
            Some((out, request)) if out == ticket => Some(request),
            other => {
                self.out = other;
                self.abandoned = self.abandoned.saturating_sub(1);
                None
            }
        }
    }
}
