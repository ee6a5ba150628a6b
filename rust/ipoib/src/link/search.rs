//! Where the search for the broadcast group has come to.
//!
//! Two groups of a partition can exist at once, in two scopes: one host makes a group while another renews the one that it knew. All
//! hosts then move to the group whose scope comes first in [`Scope::SEARCH_ORDER`]. A host that begins anew finds that group, too.

use super::BroadcastGroup;
use crate::addr::Mgid;
use crate::numbers::Scope;

/// How far the search has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// A group that the SA has, in the scope that was looked in last.
    listed: Option<BroadcastGroup>,
    /// The group that was joined before: joined again if no scope before its own has one.
    held: Option<BroadcastGroup>,
    /// Index into [`Scope::SEARCH_ORDER`] of the scope to look in next.
    scope: usize,
    /// The SA was silent about this scope once.
    silent: bool,
    /// There is a group, and the link cannot be in it.
    useless: bool,
}

/// What the search does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Look in the scope of this index into [`Scope::SEARCH_ORDER`].
    Look(usize, Scope),
    /// Join this group.
    Join(BroadcastGroup),
    /// No scope has a group.
    Nothing,
}

impl Search {
    pub(super) const START: Self = Self { listed: None, held: None, scope: 0, silent: false, useless: false };

    pub(super) fn restart(&mut self) {
        *self = Self::START;
    }

    /// A search from the first scope on that ends at this group.
    pub(super) fn renew(&mut self, held: BroadcastGroup) {
        *self = Self { held: Some(held), ..Self::START };
    }

    /// The SA has this group.
    pub(super) fn list(&mut self, group: BroadcastGroup) {
        self.listed = Some(group);
    }

    /// The scope has no group.
    pub(super) fn pass(&mut self) {
        (self.listed, self.silent) = (None, false);
        self.scope += 1;
    }

    /// The scope has a group in which the link cannot be.
    pub(super) fn pass_useless(&mut self) {
        self.useless = true;
        self.pass();
    }

    /// The SA has said nothing about the scope. Whether the search goes on: a link that has a group to join asks twice.
    pub(super) fn pass_silent(&mut self) -> bool {
        let goes_on = self.held.is_some() && core::mem::replace(&mut self.silent, true);
        if goes_on {
            self.pass();
        }
        goes_on
    }

    /// Whether the search is at the scope of this index.
    pub(super) fn is_at(&self, index: usize) -> bool {
        self.scope == index
    }

    /// Whether a group was passed in which the link cannot be: it must make no other one.
    pub(super) fn has_passed_a_group(&self) -> bool {
        self.useless
    }

    /// Whether the link has a group to join when this one, or what it looks for if `None`, is of no use.
    pub(super) fn can_do_without(&self, group: Option<Mgid>) -> bool {
        self.held.is_some_and(|held| group != Some(held.mgid))
    }

    /// Whether the SA has said since the search began that there is the group to join.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    pub(super) fn next(&self) -> Next {
        if let Some(group) = self.listed {
            return Next::Join(group);
        }
        let rest = Scope::SEARCH_ORDER.iter().enumerate().skip(self.scope);
        match (rest.map(|(index, scope)| (index, *scope)).next(), self.held) {
            (Some((index, scope)), Some(held)) if held.scope.is_searched_after(scope) => {
                Next::Look(index, scope)
            }
            (_, Some(held)) => Next::Join(held),
            (Some((index, scope)), None) => Next::Look(index, scope),
            (None, None) => Next::Nothing,
        }
    }
}
