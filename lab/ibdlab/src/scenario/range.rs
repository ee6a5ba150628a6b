//! The range of every number that a scenario can say, and the one way in which a number outside it is refused.
//!
//! Whatever is in its range can be carried out: no sum of such times overflows, no list of so many entries exhausts memory.
//! `docs/scenarios.md` lists them; a test compares.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_spanned::Spanned;

/// The numbers that a field can have, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The field as a scenario names it.
    pub name: &'static str,
    pub least: u64,
    pub most: u64,
    /// Numbers of this field are read in hexadecimal digits.
    pub hexadecimal: bool,
}

impl Range {
    /// `number`, if it is in the range.
    ///
    /// # Errors
    ///
    /// `NAME is N: expected A to B`.
    pub fn check<T: TryFrom<i128>>(&self, number: i128) -> Result<T, String> {
        let inside = (i128::from(self.least)..=i128::from(self.most)).contains(&number);
        let fits = inside.then(|| T::try_from(number).ok()).flatten();
        fits.ok_or_else(|| format!("{} is {}: expected {self}", self.name, self.text(number)))
    }

    fn text(&self, number: i128) -> String {
        if self.hexadecimal && number >= 0 { format!("{number:#x}") } else { number.to_string() }
    }
}

/// `1 to 65535`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.text(self.least.into()), self.text(self.most.into()))
    }
}

/// As long as a run in virtual time may take, in milliseconds and in microseconds.
const RUN_MS: u64 = 6 * 3_600_000;
const RUN_US: u64 = RUN_MS * 1_000;
const MILLION: u64 = 1_000_000;

/// A function for each field, which reads it (`#[serde(deserialize_with = "...")]`), and `ALL`.
macro_rules! ranges {
    ($($(#[$doc:meta])* $function:ident: $name:literal of $of:literal, $least:expr, $most:expr $(, $hex:ident)?;)*) => {
        $(
            $(#[$doc])*
            pub fn $function<'de, D: Deserializer<'de>, T: Numbers>(from: D) -> Result<T, D::Error> {
                read::$function.read(from)
            }
        )*

        /// The ranges by the names of their functions.
        #[expect(non_upper_case_globals, reason = "each is named as the function that reads the field")]
        mod read {
            use super::*;
            $(pub(super) static $function: Range = Range {
                name: $name, least: $least, most: $most, hexadecimal: false $(|| is::$hex)?,
            };)*
        }

        /// Every range, and the tables of a scenario that have the field.
        #[cfg(test)]
        static ALL: &[(&Range, &str)] = &[$((&read::$function, $of)),*];
    };
}

mod is {
    #[expect(non_upper_case_globals, reason = "a word of the table of ranges")]
    pub const hexadecimal: bool = true;
}

ranges! {
    /// An answer takes so long each: more, and no driver waits for it.
    sa_delay_ms: "sa_delay_ms" of "fabric", 0, 600_000;
    /// By its code in the SA's records.
    rate: "rate" of "partition, group-changes", 2, 24;
    /// LID mask control. There must be LIDs for all ports of a fabric.
    lmc: "lmc" of "fabric", 0, 3;
    sl: "sl" of "partition", 0, 15;
    /// Bit 31 says that a sender's own queue pair has it.
    qkey: "qkey" of "partition", 1, 0xffff_ffff, hexadecimal;
    tclass: "tclass" of "partition", 0, 255;
    /// 20 bits.
    flow_label: "flow_label" of "partition", 0, 0xf_ffff, hexadecimal;
    hop_limit: "hop_limit" of "partition", 0, 255;
    /// Those where a link looks for its broadcast group: 2, 5, 8 and 14.
    scope: "scope" of "partition", 2, 14;
    /// 15 bits and that of membership.
    pkey: "pkey" of "partition, host, group-changes", 1, 0xffff, hexadecimal;
    subnet: "subnet" of "host", 1, 2;
    /// The GUIDs of the ports come behind it.
    guid: "guid" of "host", 1, u64::MAX - 8, hexadecimal;
    /// Two is what hardware has, more shows what software assumes.
    ports: "ports" of "host", 1, 8;
    unplugged: "unplugged" of "host", 1, 8;
    /// As many as there are multicast LIDs.
    groups: "groups" of "host", 0, 16_383;
    one_in: "one_in" of "schedule", 1, 1_000_000;
    changes: "changes" of "schedule", 0, 1_000;
    within_calls: "within" of "schedule", 1, 1_000_000_000;
    turn_calls: "calls" of "schedule", 1, 1_000_000;
    within_ms: "within_ms" of "up, flap, sm-restart, pkey-moves, group-changes, membership-changes, unload-under-traffic", 0, RUN_MS;
    trouble_within_ms: "within_ms" of "trouble", 0, RUN_MS;
    after_first_ms: "after_first_ms" of "up", 0, RUN_MS;
    idle_for_ms: "for_ms" of "idle", 0, RUN_MS;
    /// Echoes have a sequence number of 16 bits.
    ping_count: "count" of "ping, linux-ping", 1, 65_535;
    /// One in 10 ms, within the five minutes that a step may take to send.
    group_count: "count" of "multicast, eavesdrop", 1, 20_000;
    /// An IPv4 packet of 65,535 bytes less its header and that of the echo.
    sizes: "sizes" of "ping", 0, 65_507;
    down_ms: "down_ms" of "flap", 1, RUN_MS;
    sm_away_ms: "away_ms" of "sm-restart", 0, RUN_MS;
    router_away_ms: "away_ms" of "router-away", 1, RUN_MS;
    pkey_away_ms: "away_ms" of "pkey-moves", 1, RUN_MS;
    at_most: "at_most" of "fault-points", 0, MILLION;
    stall_one_in: "one_in" of "stalls of trouble", 1, MILLION;
    longest_us: "longest_us" of "stalls of trouble", 1, RUN_US;
    settle_ms: "settle_ms" of "trouble", 0, RUN_MS;
    senders: "senders" of "trouble", 0, 8;
    echo_every_us: "echo_every_us" of "trouble", 0, RUN_US;
    at_us: "at_us" of "trouble's events", 0, RUN_US;
    pass: "pass" of "a call that trouble's events wait for", 1, u32::MAX as u64;
    holds_us: "holds_us" of "a call that trouble's events wait for", 0, RUN_US;
    for_ms: "for_ms" of "link, switch-reboot, sa, interrupts-late, commands-slow, sends-hang, no-credits, strangers, link-visited, memory-short, link-retrains", 0, RUN_MS;
    per_second: "per_second" of "strangers", 1, 100_000;
    visits_every_us: "every_us" of "link-visited", 1, RUN_US;
    number: "number" of "one-qp-breaks", 0, 255;
    /// A switch's routes have 16,383 multicast LIDs, and some must be left.
    mlids_later: "mlids_later" of "sm-restart, sm-failover", 0, 0x3000, hexadecimal;
    /// A subnet manager that does not know which LIDs ports have had; 0 for one that does.
    lids_later: "lids_later" of "sm-restart", 0, 0x3000, hexadecimal;
    /// Unicast LIDs.
    lid: "lid" of "sm-failover", 1, 0xbfff, hexadecimal;
    /// What begins with 0xff is a multicast address.
    prefix: "prefix" of "subnet-prefix", 1, 0xfeff_ffff_ffff_ffff, hexadecimal;
    sa_times: "times" of "sa", 1, u32::MAX as u64;
    cm_times: "times" of "cm-lost", 1, u32::MAX as u64;
    /// In milliseconds.
    late: "late" of "sa", 0, RUN_MS;
    /// Entries of a lab adapter's P_Key table that a scenario may use.
    index: "index" of "pkey-added", 0, 63;
    after: "after" of "allocation-fails", 0, u32::MAX as u64;
    times: "times" of "allocation-fails", 1, u32::MAX as u64;
    loss: "loss" of "link", 0, MILLION;
    duplicate: "duplicate" of "link", 0, MILLION;
    corrupt: "corrupt" of "link", 0, MILLION;
    corrupt_inside: "corrupt_inside" of "link", 0, MILLION;
    reorder: "reorder" of "link", 0, MILLION;
    reorder_by_us: "reorder_by_us" of "link", 0, RUN_US;
    delay_us: "delay_us" of "link", 0, RUN_US;
    jitter_us: "jitter_us" of "link", 0, RUN_US;
    from_us: "from_us" of "interrupts-late, commands-slow", 0, RUN_US;
    to_us: "to_us" of "interrupts-late, commands-slow", 0, RUN_US;
}

impl Range {
    fn read<'de, D: Deserializer<'de>, T: Numbers>(&self, from: D) -> Result<T, D::Error> {
        T::of(T::Read::deserialize(from)?, self).map_err(D::Error::custom)
    }
}

/// What a field holds: a number, one with its place in the file, one that may be absent, or several.
pub trait Numbers: Sized {
    /// As it is read.
    type Read: for<'de> Deserialize<'de>;

    /// # Errors
    ///
    /// As for [`Range::check`].
    fn of(read: Self::Read, range: &Range) -> Result<Self, String>;
}

macro_rules! bare {
    ($($number:ty),*) => { $(
        impl Numbers for $number {
            type Read = Any;

            fn of(read: Any, range: &Range) -> Result<Self, String> {
                range.check(read.0)
            }
        }
    )* };
}
bare!(u8, u16, u32, u64, usize);

impl<T: Numbers> Numbers for Spanned<T> {
    type Read = Spanned<T::Read>;

    fn of(read: Self::Read, range: &Range) -> Result<Self, String> {
        let span = read.span();
        Ok(Self::new(span, T::of(read.into_inner(), range)?))
    }
}

impl<T: Numbers> Numbers for Option<T> {
    type Read = T::Read;

    fn of(read: Self::Read, range: &Range) -> Result<Self, String> {
        T::of(read, range).map(Some)
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    type Read = Vec<T::Read>;

    fn of(read: Self::Read, range: &Range) -> Result<Self, String> {
        read.into_iter().map(|one| T::of(one, range)).collect()
    }
}

/// Any number that TOML can say.
pub struct Any(i128);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl Visitor<'_> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Any, E> {
        Ok(Any(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Any, E> {
        Ok(Any(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Any, E> {
        Ok(Any(number))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Any, E> {
        i128::try_from(number).map(Any).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_scenarios_has_the_range_of_every_number() {
        let page = include_str!("../../../../docs/scenarios.md");
        for (range, of) in ALL {
            let row = format!("| `{}` | {of} | {range} |", range.name);
            assert!(page.lines().any(|line| line.starts_with(&row)), "docs/scenarios.md has no row\n{row}");
        }
    }
}
