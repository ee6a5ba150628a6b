//! The lists of the table: which addresses wait for what.

pub(super) const LISTS: usize = 10;
/// Addresses that may be evicted, the one that the table was asked about longest ago first.
pub(super) const IDLE: usize = 0;
/// Ports whose packets wait for a lookup.
pub(super) const URGENT: usize = 1;
/// Ports to look up again while their handle stays in use.
pub(super) const BACKGROUND: usize = 2;
/// Groups to look up. Ports do not wait behind them: a group is joined for it, which can take minutes.
pub(super) const GROUPS: usize = 3;
/// Ports that only an answer waits for, whose first frame came from their own GID.
pub(super) const NEWCOMERS: usize = 4;
/// Ports that only an answer waits for, which anybody may have made up.
pub(super) const STRANGERS: usize = 5;
/// Ports that the SA is being asked about.
pub(super) const ASKED: usize = 6;
/// Ports whose packets wait, and which have not spoken for themselves.
pub(super) const UNPROVED: usize = 7;
/// Groups that only a question waits for, about a neighbour that has spoken for itself.
pub(super) const GROUPS_OF_NEWCOMERS: usize = 8;
/// Groups that only a question waits for, which any host may have caused.
pub(super) const GROUPS_OF_STRANGERS: usize = 9;
