//! Messages to the system log (`cmn_err(9F)`), bounded per source and cause.

use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use illumos_sys_hdrs as sys;

use crate::time::{Duration, Instant};
use crate::{KVec, MayBlock};

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `CE_NOTE`: something happened that an administrator may want to see.
    Note,
    /// `CE_WARN`: something is wrong.
    Warn,
}

/// Who logs: its [`Display`](fmt::Display) is what each of its lines begins with.
pub trait Source: fmt::Display {
    /// When it has logged what; `None` if it shares that with everybody who logs from the same place.
    fn causes(&self) -> Option<&Causes> {
        None
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn causes(&self) -> Option<&Causes> {
        (**self).causes()
    }
}

impl Source for str {}

/// Logs `$source: message`, at most once per second for each [`Source`] from this place in the code.
///
/// `log!(warn, dip, "join of {} failed: {}", mgid, status)`. What is suppressed is counted, and the next message says how many there
/// were. The message goes to the log only, not to the console. **Any** context.
#[macro_export]
macro_rules! log {
    (note, $($rest:tt)+) => { $crate::log!(@ Note, $($rest)+) };
    (warn, $($rest:tt)+) => { $crate::log!(@ Warn, $($rest)+) };
    (@ $level:ident, $source:expr, $($message:tt)+) => {{
        static CAUSE: $crate::log::Cause = $crate::log::Cause::new();
        $crate::log::emit(&CAUSE, $crate::log::Level::$level, &$source, ::core::format_args!($($message)+));
    }};
}

/// When one source has logged from each place in the code: so that of several that meet the same trouble in the same second each is
/// named.
pub struct Causes(KVec<Entry>);

/// Places that one source logs from, at most; what comes from another one counts for all sources together.
const PLACES: usize = 64;

struct Entry {
    /// Address of the place's own [`Cause`]; 0 while free.
    place: AtomicUsize,
    cause: Cause,
}

impl Causes {
    /// Nothing has been logged. Waits for memory: **may block**.
    pub fn new(may_block: &MayBlock) -> Self {
        let entry = |_| Entry { place: AtomicUsize::new(0), cause: Cause::new() };
        Self(KVec::from_fn_waiting(PLACES, may_block, entry))
    }

    /// The cause that counts for a place.
    fn of<'a>(&'a self, place: &'a Cause) -> &'a Cause {
        let name = core::ptr::from_ref(place).addr();
        let mine = |entry: &&Entry| {
            let taken = entry.place.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(name)
        };
        self.0.iter().find(mine).map_or(place, |entry| &entry.cause)
    }
}

/// Something that is logged once per second at most.
pub struct Cause {
    last: AtomicU64,
    suppressed: AtomicU32,
}

impl Cause {
    const INTERVAL: Duration = Duration::from_secs(1);
    const NEVER: u64 = u64::MAX;

    /// A cause that has not been logged yet.
    pub const fn new() -> Self {
        Self { last: AtomicU64::new(Self::NEVER), suppressed: AtomicU32::new(0) }
    }

    /// `Some(how many were swallowed)` if a message may go out now.
    fn admit(&self, now: Instant) -> Option<u32> {
        let last = self.last.load(Ordering::Relaxed);
        let due = last == Self::NEVER || now - Instant::from_nanos(last) >= Self::INTERVAL;
        // Of two callers that are both due one gets through.
        let won = due
            && self.last.compare_exchange(last, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if won {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Default for Cause {
    fn default() -> Self {
        Self::new()
    }
}

/// Behind [`log!`](crate::log!).
#[doc(hidden)]
pub fn emit(place: &Cause, level: Level, source: &dyn Source, message: fmt::Arguments<'_>) {
    let cause = source.causes().map_or(place, |causes| causes.of(place));
    let Some(swallowed) = cause.admit(Instant::now()) else { return };
    let mut line = Line::<200>::new();
    // A message that does not fit is cut.
    let _ = write!(line, "{source}: {message}");
    if swallowed != 0 {
        let _ = write!(line, " ({swallowed} more like this not shown)");
    }
    print(level, line.as_c_str());
}

fn print(level: Level, line: &CStr) {
    let level = match level {
        Level::Note => sys::CE_NOTE,
        Level::Warn => sys::CE_WARN,
    };
    // SAFETY: the format takes one NUL-terminated string; `!` sends the line to the log only.
    unsafe { sys::cmn_err(level as c_int, c"!%s".as_ptr(), line.as_ptr()) };
}

/// A line of text on the stack: `N` bytes including the terminating NUL; what does not fit is cut off.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    /// An empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// The text for C.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// The text's bytes, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (N - 1).saturating_sub(self.len);
        let taken = text.len().min(room);
        if let (Some(to), Some(from)) =
            (self.bytes.get_mut(self.len..self.len + taken), text.as_bytes().get(..taken))
        {
            to.copy_from_slice(from);
            self.len += taken;
        }
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Causes, Line, PLACES};
    use crate::may_block::MayBlock;
    use crate::time::Instant;
    use core::fmt::Write;

    #[test]
    fn one_message_per_second_and_the_rest_counted() {
        let cause = Cause::new();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        assert_eq!(cause.admit(at(10)), Some(0));
        assert_eq!(cause.admit(at(500)), None);
        assert_eq!(cause.admit(at(1009)), None);
        assert_eq!(cause.admit(at(1010)), Some(2));
        assert_eq!(cause.admit(at(2010)), Some(0));
    }

    #[test]
    fn two_sources_with_one_trouble_are_both_heard_and_one_with_two_troubles_twice() {
        static PLACES_OF_CODE: [Cause; 2] = [const { Cause::new() }; 2];
        let sources = [Causes::new(&MayBlock::on_host()), Causes::new(&MayBlock::on_host())];
        for source in &sources {
            for place in &PLACES_OF_CODE {
                assert_eq!(source.of(place).admit(Instant::from_nanos(1)), Some(0));
                assert_eq!(source.of(place).admit(Instant::from_nanos(2)), None);
            }
        }
    }

    #[test]
    fn more_places_than_one_source_can_tell_apart_are_bounded_all_the_same() {
        static MANY: [Cause; PLACES + 1] = [const { Cause::new() }; PLACES + 1];
        let source = Causes::new(&MayBlock::on_host());
        for place in &MANY {
            assert_eq!(source.of(place).admit(Instant::from_nanos(1)), Some(0));
        }
        assert!(MANY.iter().all(|place| source.of(place).admit(Instant::from_nanos(2)).is_none()));
    }

    #[test]
    fn message_too_long_is_cut_and_terminated() {
        let mut line = Line::<8>::new();
        assert!(write!(line, "0123456789").is_err());
        assert_eq!(line.as_c_str(), c"0123456");
        assert_eq!(line.as_bytes(), b"0123456");
    }
}
