//! A link's private properties (`dladm set-linkprop -p _ibd_...`): the ones of datagram mode, their bounds, who may set them
//! when, and their values. Names and bounds are those that scripts know from the C driver; three defaults are
//! lower: of `_ibd_ud_num_rwqe`, because the driver lends as many buffers again, of `_ibd_ud_num_swqe` and of `_ibd_num_lso_bufs`.
//!
//! No bound depends on another property: at boot the saved values come in any order.

use core::ffi::CStr;
use core::time::Duration;

use kernel::Errno;

use super::limits::SIGNAL_EVERY;

/// A property that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Key {
    /// Whether the interrupt moderation below may be changed.
    CoalesceCompletions,
    /// Whether to create a broadcast group nobody has.
    CreateBroadcastGroup,
    /// How much goes to the log: 1 what a link goes through, 2 what is asked of the SA too.
    Debug,
    /// Addresses a transmit queue remembers without asking the link's table, in units of [`HASH_UNIT`].
    HashSize,
    /// Failed joins of a group that are followed by the shortest pause before the pauses grow.
    JoinRetries,
    /// Seconds that an answer about the broadcast group is waited for; 0: as long as IBTF waits.
    JoinTimeout,
    /// Whether large sends are taken, where the adapter can cut them.
    LsoEnable,
    /// Addresses there is room for from the start.
    NumAh,
    /// Memory for large sends that must be copied, in units of [`LSO_UNIT`].
    NumLsoBufs,
    /// Ports that the SA is asked about at once, and groups as many again.
    PathLookups,
    /// Packets that wait for one address.
    PathPackets,
    /// Seconds after which a path that is in use is looked up again.
    PathRefresh,
    /// Whether neighbours can open connections, to send on.
    RcAccept,
    /// This and the others of the C driver's connections are taken, kept and shown, and have no effect.
    RcEnableSrq,
    RcNumRwqe,
    RcNumSrq,
    RcNumSwqe,
    RcRxCompCount,
    RcRxCompUsec,
    RcRxCopyThresh,
    RcRxRwqeThresh,
    RcTxCompCount,
    RcTxCompUsec,
    RcTxCopyThresh,
    /// Seconds in which a send completes, or the queue pair is replaced; 0: never.
    TxTimeout,
    /// Receives the adapter holds; as many buffers again can be lent.
    NumRwqe,
    /// Sends the adapter holds.
    NumSwqe,
    /// Completions after which the adapter interrupts to receive; at most what it holds counts.
    RxCompCount,
    /// Microseconds after which it does so in any case.
    RxCompUsec,
    /// Received packets up to so many bytes, GRH and IPoIB header included, are copied, and longer ones passed up in the adapter's buffer.
    RxCopyThresh,
    /// Received packets that one interrupt takes before a thread goes on.
    RxIntrLimit,
    /// Sends after which the adapter interrupts; one in [`SIGNAL_EVERY`] completes, and at most what it holds counts.
    TxCompCount,
    /// Microseconds after which it does so in any case.
    TxCompUsec,
    /// Packets longer than this are sent from where they are, where the adapter can.
    TxCopyThresh,
}

/// 1 while the broadcast group is joined; read only.
pub(crate) const BROADCAST_GROUP: &CStr = c"_ibd_broadcast_group";
/// How far the membership in it has come; read only.
pub(crate) const BROADCAST_STATE: &CStr = c"_ibd_broadcast_state";
/// Why the link is not up, as far as it was told since it was up last; read only.
pub(crate) const LINK_REASON: &CStr = c"_ibd_link_reason";
/// What the link is or waits for; read only.
pub(crate) const LINK_STATE: &CStr = c"_ibd_link_state";
/// `ibt_status_t` of the last request to the SA that failed; read only.
pub(crate) const SA_STATUS: &CStr = c"_ibd_sa_status";
/// All that cannot be set.
const READ_ONLY: [&CStr; 5] = [BROADCAST_GROUP, BROADCAST_STATE, LINK_REASON, LINK_STATE, SA_STATUS];
/// Addresses per unit of [`Key::HashSize`].
pub(crate) const HASH_UNIT: u32 = 32;
/// The most paths of neighbours that a link can be told to ask for at a time.
pub(crate) const MOST_PATH_LOOKUPS: u32 = most(Key::PathLookups);
/// Bytes per unit of [`Key::NumLsoBufs`].
pub(crate) const LSO_UNIT: u32 = 8192;

/// When a property may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// While the link is stopped: `EBUSY` otherwise.
    Stopped,
    /// Any time.
    Always,
    /// Any time if [`Key::CoalesceCompletions`] is 1: `ENOTSUP` otherwise.
    Coalescing,
}

struct Row {
    name: &'static CStr,
    key: Key,
    default: u32,
    least: u32,
    most: u32,
    when: When,
}

const fn row(name: &'static CStr, key: Key, default: u32, least: u32, most: u32, when: When) -> Row {
    Row { name, key, default, least, most, when }
}

/// The greatest value of a property whose greatest is a number.
const fn most(key: Key) -> u32 {
    ROWS[key as usize].most
}

/// The most work requests of a queue that the C driver asks for.
const MOST_WQE: u32 = 8000;
/// The longest message of the C driver's, the IPoIB header included.
const LONGEST_RC: u32 = 65_524;

const COUNT: usize = Key::TxCopyThresh as usize + 1;

/// One row for each key, in its order.
const ROWS: [Row; COUNT] = [
    row(c"_ibd_coalesce_completions", Key::CoalesceCompletions, 1, 0, 1, When::Always),
    row(c"_ibd_create_broadcast_group", Key::CreateBroadcastGroup, 1, 0, 1, When::Stopped),
    row(c"_ibd_debug", Key::Debug, 0, 0, 2, When::Always),
    row(c"_ibd_hash_size", Key::HashSize, 32, 32, 1024, When::Stopped),
    row(c"_ibd_join_retries", Key::JoinRetries, 0, 0, 100, When::Always),
    row(c"_ibd_join_timeout", Key::JoinTimeout, 0, 0, 3600, When::Always),
    row(c"_ibd_lso_enable", Key::LsoEnable, 1, 0, 1, When::Stopped),
    row(c"_ibd_num_ah", Key::NumAh, 256, 32, 8192, When::Stopped),
    row(c"_ibd_num_lso_bufs", Key::NumLsoBufs, 512, 512, 4096, When::Stopped),
    row(c"_ibd_path_lookups", Key::PathLookups, 16, 1, 64, When::Always),
    row(c"_ibd_path_packets", Key::PathPackets, 72, 1, 1024, When::Always),
    row(c"_ibd_path_refresh", Key::PathRefresh, 300, 10, 86_400, When::Always),
    row(c"_ibd_rc_accept", Key::RcAccept, 0, 0, 1, When::Stopped),
    row(c"_ibd_rc_enable_srq", Key::RcEnableSrq, 1, 0, 1, When::Always),
    row(c"_ibd_rc_num_rwqe", Key::RcNumRwqe, 2047, 511, MOST_WQE, When::Always),
    row(c"_ibd_rc_num_srq", Key::RcNumSrq, 2046, 0, MOST_WQE, When::Always),
    row(c"_ibd_rc_num_swqe", Key::RcNumSwqe, 511, 511, MOST_WQE, When::Always),
    row(c"_ibd_rc_rx_comp_count", Key::RcRxCompCount, 4, 1, MOST_WQE, When::Always),
    row(c"_ibd_rc_rx_comp_usec", Key::RcRxCompUsec, 10, 1, u32::MAX, When::Always),
    row(c"_ibd_rc_rx_copy_thresh", Key::RcRxCopyThresh, 4096, 1500, LONGEST_RC, When::Always),
    row(c"_ibd_rc_rx_rwqe_thresh", Key::RcRxRwqeThresh, 511, 127, MOST_WQE, When::Always),
    row(c"_ibd_rc_tx_comp_count", Key::RcTxCompCount, 10, 1, MOST_WQE, When::Always),
    row(c"_ibd_rc_tx_comp_usec", Key::RcTxCompUsec, 300, 1, u32::MAX, When::Always),
    row(c"_ibd_rc_tx_copy_thresh", Key::RcTxCopyThresh, 4096, 1500, LONGEST_RC, When::Always),
    row(c"_ibd_tx_timeout", Key::TxTimeout, 30, 0, 3600, When::Always),
    row(c"_ibd_ud_num_rwqe", Key::NumRwqe, 512, 512, MOST_WQE, When::Stopped),
    row(c"_ibd_ud_num_swqe", Key::NumSwqe, 512, 512, MOST_WQE, When::Stopped),
    row(c"_ibd_ud_rx_comp_count", Key::RxCompCount, 4, 1, MOST_WQE, When::Coalescing),
    row(c"_ibd_ud_rx_comp_usec", Key::RxCompUsec, 10, 1, u32::MAX, When::Coalescing),
    row(c"_ibd_ud_rx_copy_thresh", Key::RxCopyThresh, 256, 0, 4136, When::Stopped),
    row(c"_ibd_ud_rx_intr_limit", Key::RxIntrLimit, 256, 32, MOST_WQE, When::Stopped),
    row(c"_ibd_ud_tx_comp_count", Key::TxCompCount, 16, 1, MOST_WQE, When::Coalescing),
    row(c"_ibd_ud_tx_comp_usec", Key::TxCompUsec, 300, 1, u32::MAX, When::Coalescing),
    row(c"_ibd_ud_tx_copy_thresh", Key::TxCopyThresh, 4096, 2048, 65_536, When::Stopped),
];

/// The names GLDv3 is told.
pub(crate) const NAMES: &[&CStr] = &{
    let mut names = [BROADCAST_GROUP; COUNT + READ_ONLY.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = if i < READ_ONLY.len() { READ_ONLY[i] } else { ROWS[i - READ_ONLY.len()].name };
        i += 1;
    }
    names
};

/// The name of a private property without the underscore that makes it one.
fn configured_name(name: &'static CStr) -> &'static CStr {
    CStr::from_bytes_with_nul(name.to_bytes_with_nul().get(1..).unwrap_or_default()).unwrap_or(name)
}

/// Whether a property of this name can be read and not set.
pub(crate) fn is_read_only(name: &CStr) -> bool {
    READ_ONLY.contains(&name)
}

impl Key {
    /// The property of this name.
    pub(crate) fn named(name: &CStr) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.key)
    }

    /// All there are.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.key)
    }

    /// What it is until it is set or configured.
    pub(crate) fn default_value(self) -> u32 {
        self.row().default
    }

    /// What a reset sets: what the driver.conf(5) says that `number` reads, if that is within the bounds and of any use, or else the driver's own.
    pub(crate) fn configured_value(self, number: impl Fn(&CStr) -> Option<i32>) -> u32 {
        let row = self.row();
        let told = number(configured_name(row.name)).and_then(|value| u32::try_from(value).ok());
        let told = told.filter(|value| self.has_effect() && (row.least..=row.most).contains(value));
        told.unwrap_or(row.default)
    }

    /// Whether anything comes of it.
    pub(crate) fn has_effect(self) -> bool {
        !(Self::RcEnableSrq as usize..=Self::RcTxCopyThresh as usize).contains(&(self as usize))
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// The values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    values: [u32; COUNT],
    /// `linkmode`: the link opens connections, and takes them.
    pub(crate) connected: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { values: ROWS.map(|row| row.default), connected: false }
    }
}

/// Completions, and microseconds, before an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moderation {
    pub(crate) count: u32,
    pub(crate) micros: u32,
}

impl Settings {
    pub(crate) fn get(&self, key: Key) -> u32 {
        self.values[key as usize]
    }

    /// Whether neighbours can open connections.
    pub(crate) fn takes_connections(&self) -> bool {
        self.connected || self.is_on(Key::RcAccept)
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, key: Key) -> bool {
        self.get(key) != 0
    }

    /// What a driver.conf(5) says of the properties that have an effect, each value by the property's name without the underscore in front;
    /// `number` finds one. Whatever is out of bounds is told to `bad`, and stays as it was.
    pub(crate) fn configure(
        &mut self,
        number: impl Fn(&CStr) -> Option<i32>,
        bad: impl Fn(&CStr, i32, u32, u32),
    ) {
        // What fixes the moderation comes when it has been set.
        let last = Key::CoalesceCompletions;
        let others = ROWS.iter().filter(|row| row.key != last && row.key.has_effect());
        for row in others.chain([last.row()]) {
            let name = configured_name(row.name);
            let Some(value) = number(name) else { continue };
            if self.set(row.key, value.into(), false).is_err() {
                bad(name, value, row.least, row.most);
            }
        }
    }

    /// Sets a value. `EBUSY`: not while the link is started; `ENOTSUP`: not
    /// while coalescing is fixed; `EINVAL`: out of bounds.
    pub(crate) fn set(&mut self, key: Key, value: i64, started: bool) -> Result<(), Errno> {
        let row = key.row();
        match row.when {
            When::Stopped if started => return Err(Errno::EBUSY),
            When::Coalescing if !self.is_on(Key::CoalesceCompletions) => return Err(Errno::ENOTSUP),
            When::Stopped | When::Coalescing | When::Always => {}
        }
        let value = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
        if !(row.least..=row.most).contains(&value) {
            return Err(Errno::EINVAL);
        }
        self.values[key as usize] = value;
        Ok(())
    }

    /// How long a path in use is trusted.
    pub(crate) fn path_refresh(&self) -> Duration {
        Duration::from_secs(self.get(Key::PathRefresh).into())
    }

    /// How long a send may take; `None`: as long as it likes.
    pub(crate) fn transmit_timeout(&self) -> Option<Duration> {
        self.seconds(Key::TxTimeout)
    }

    /// How long an answer about the broadcast group may take.
    pub(crate) fn join_timeout(&self) -> Option<Duration> {
        self.seconds(Key::JoinTimeout)
    }

    fn seconds(&self, key: Key) -> Option<Duration> {
        Some(self.get(key)).filter(|seconds| *seconds != 0).map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Of the receive interrupt.
    pub(crate) fn receive_moderation(&self) -> Moderation {
        let count = self.get(Key::RxCompCount).min(self.get(Key::NumRwqe));
        Moderation { count, micros: self.get(Key::RxCompUsec) }
    }

    /// Of the transmit interrupt: as many completions as come of so many sends, and one at least.
    pub(crate) fn transmit_moderation(&self) -> Moderation {
        let count = (self.get(Key::TxCompCount).min(self.get(Key::NumSwqe)) / SIGNAL_EVERY).max(1);
        Moderation { count, micros: self.get(Key::TxCompUsec) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_row_and_a_default_within_its_bounds() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.key as usize, at, "{:?}", row.name);
            assert_eq!(Key::named(row.name), Some(row.key));
            assert!((row.least..=row.most).contains(&row.default), "{:?}", row.name);
        }
        assert_eq!(NAMES.len(), 39);
        assert_eq!(Key::named(BROADCAST_GROUP), None);
    }

    #[test]
    fn a_configuration_file_says_what_each_is_and_what_is_out_of_bounds_stays() {
        let mut settings = Settings::default();
        let given = [
            (c"ibd_ud_num_rwqe", 1000),
            (c"ibd_ud_rx_comp_count", 1000),
            (c"ibd_coalesce_completions", 0),
            (c"ibd_tx_timeout", -1),
            (c"ibd_hash_size", 1025),
            (c"_ibd_debug", 2),
            (c"ibd_rc_num_srq", 9000),
        ];
        let reports = core::cell::RefCell::new(std::vec::Vec::new());
        settings.configure(
            |name| given.iter().find(|(known, _)| *known == name).map(|(_, value)| *value),
            |name, value, least, most| reports.borrow_mut().push((name.to_owned(), value, least, most)),
        );
        assert_eq!(settings.receive_moderation().count, 1000);
        assert!(!settings.is_on(Key::CoalesceCompletions));
        let number = |name: &CStr| given.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let resets = [Key::NumRwqe, Key::HashSize, Key::TxTimeout, Key::RcNumSrq, Key::Debug];
        assert_eq!(resets.map(|key| key.configured_value(number)), [1000, 32, 30, 2046, 0]);
        let left = [Key::TxTimeout, Key::HashSize, Key::Debug]
            .map(|key| settings.get(key) == Settings::default().get(key));
        assert_eq!(left, [true; 3]);
        let told =
            [(c"ibd_hash_size".to_owned(), 1025, 32, 1024), (c"ibd_tx_timeout".to_owned(), -1, 0, 3600)];
        assert_eq!(reports.into_inner(), told);
    }

    #[test]
    fn values_out_of_bounds_are_refused_and_leave_the_old_one() {
        for row in &ROWS {
            let mut settings = Settings::default();
            let most = i64::from(row.most);
            for wrong in [i64::from(row.least) - 1, most + 1, -1, i64::MIN, i64::MAX] {
                assert_eq!(settings.set(row.key, wrong, false), Err(Errno::EINVAL), "{:?} {wrong}", row.name);
                assert_eq!(settings.get(row.key), row.default);
            }
            for right in [i64::from(row.least), most] {
                assert_eq!(settings.set(row.key, right, false), Ok(()), "{:?} {right}", row.name);
                assert_eq!(i64::from(settings.get(row.key)), right);
            }
        }
    }

    #[test]
    fn a_started_link_changes_its_interrupts_and_nothing_else() {
        for row in &ROWS {
            let mut settings = Settings::default();
            let result = settings.set(row.key, i64::from(row.default), true);
            let expected = if row.when == When::Stopped { Err(Errno::EBUSY) } else { Ok(()) };
            assert_eq!(result, expected, "{:?}", row.name);
        }
    }

    #[test]
    fn no_interrupt_waits_for_more_completions_than_a_ring_holds() {
        let mut settings = Settings::default();
        settings.set(Key::RxCompCount, 2000, false).unwrap();
        assert_eq!(settings.receive_moderation(), Moderation { count: 512, micros: 10 });
        settings.set(Key::NumRwqe, 3000, false).unwrap();
        assert_eq!(settings.receive_moderation().count, 2000);
        settings.set(Key::TxCompCount, 8000, false).unwrap();
        assert_eq!(settings.transmit_moderation().count, 512 / SIGNAL_EVERY);
    }

    #[test]
    fn the_transmit_interrupt_counts_sends_of_which_one_in_sixty_four_completes() {
        let mut settings = Settings::default();
        let after = |settings: &mut Settings, sends: u32| {
            settings.set(Key::TxCompCount, sends.into(), true).unwrap();
            settings.transmit_moderation().count
        };
        assert_eq!(settings.transmit_moderation().count, 1);
        let counts = [1, 63, 64, 127, 128, 512].map(|sends| after(&mut settings, sends));
        assert_eq!(counts, [1, 1, 1, 1, 2, 8]);
    }

    #[test]
    fn moderation_is_fixed_while_coalescing_is_off() {
        let mut settings = Settings::default();
        settings.set(Key::CoalesceCompletions, 0, true).unwrap();
        assert_eq!(settings.set(Key::TxCompUsec, 1, true), Err(Errno::ENOTSUP));
        settings.set(Key::CoalesceCompletions, 1, true).unwrap();
        assert_eq!(settings.set(Key::TxCompUsec, 1, true), Ok(()));
    }
}
