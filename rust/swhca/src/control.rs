//! The ioctls: what a cable, a subnet manager or a fault does. The interface is the crate `swhca-ioctl`.

use core::ffi::CStr;

use ibtf_provider::{Gid, PortChange, PortEvent};
use kernel::user::{Cred, GLOBAL_ZONE, Plain, UserMemory};
use kernel::{Errno, KArc, log};
use swhca_ioctl::{Argument, Counter, command};

use crate::NAME;
use crate::mad;
use crate::node::Node;
use crate::port::{Port, SPEEDS};
use crate::qp::Qp;
use crate::sa::{Notice, PKEYS, Trap};
use crate::send::FIRST_MLID;
use crate::statistics::value;
use crate::trouble::Trouble;

/// The largest code of a rate: what is above is a record's selector.
const MAX_RATE: u8 = 0x3f;
/// A GID with this prefix, or a larger one, is a group's.
const FIRST_GROUP_PREFIX: u64 = 0xff << 56;
/// The longest delay of the SA.
const MAX_DELAY: u64 = 10_000;

/// Does what is asked, on the thread of whoever asks. **May block.**
pub(crate) fn ioctl(
    node: &KArc<Node>,
    number: i32,
    argument: UserMemory<'_>,
    caller: Cred<'_>,
) -> Result<i32, Errno> {
    caller.may_configure_links()?;
    // Cables and managers are those of every zone.
    if caller.zone_id() != GLOBAL_ZONE {
        return Err(Errno::EPERM);
    }
    let values = read(argument)?;
    match number {
        command::LOG_STATISTICS => log_statistics(node),
        command::READ_STATISTICS => return read_statistics(node, argument, values),
        command::RESTART_MANAGER => node.subnet.restart()?,
        command::NOTICE => tell(node, values)?,
        _ => return of_port(node, number, values),
    }
    Ok(0)
}

fn read(argument: UserMemory<'_>) -> Result<Argument, Errno> {
    let mut values = Argument::default();
    for (value, at) in values.iter_mut().zip((0u64..).step_by(size_of::<u64>())) {
        *value = argument.at(argument.address().wrapping_add(at)).read()?;
    }
    Ok(values)
}

/// `EAGAIN` if the SM has too much to tell.
fn tell(node: &Node, [trap, prefix, guid, _]: Argument) -> Result<(), Errno> {
    let trap = Trap::of(trap).ok_or(Errno::EINVAL)?;
    let kept = node.subnet.happened(Notice { trap, gid: Gid { prefix, guid } });
    if kept { Ok(()) } else { Err(Errno::EAGAIN) }
}

fn of_port(node: &KArc<Node>, number: i32, values: Argument) -> Result<i32, Errno> {
    let [port, value, other, times] = values;
    let port = u8::try_from(port).ok().filter(|port| node.port(*port).is_some()).ok_or(Errno::ENXIO)?;
    let _turn = node.changes.begin()?;
    let small = |value: u64| u16::try_from(value).map_err(|_| Errno::EINVAL);
    let code = |value: u64| u8::try_from(value).map_err(|_| Errno::EINVAL);
    let set = |change: &dyn Fn(&mut Port)| {
        node.with_port(port, |state| change(state));
    };
    match number {
        command::PORT_DOWN => cable(node, port, false),
        command::PORT_UP => cable(node, port, true),
        command::SET_PKEY => set_pkey(node, port, value, small(other)?)?,
        command::SET_LID => set_lid(node, port, small(value)?)?,
        command::MOVE_MANAGER => {
            let lid = small(value)?;
            node.subnet.check_manager(lid)?;
            if change(node, port, PortChange::SM_LID, lid, |state| Some(&mut state.manager)) {
                node.raise(port, PortEvent::Reregister);
            }
        }
        command::SILENCE_SA => set(&|state| state.unheard = value != 0),
        command::LOSE_PACKETS => {
            let lost = node.with_port(port, |state| state.loss.set(value));
            return if lost == Some(true) { Ok(0) } else { Err(Errno::EINVAL) };
        }
        command::TROUBLE_SA => {
            let trouble = Trouble::of(value, other, times).ok_or(Errno::EINVAL)?;
            set(&|state| state.trouble = trouble);
        }
        command::FAIL_QP => return fail_one(node, port, value),
        command::SET_PREFIX => {
            if !(1..FIRST_GROUP_PREFIX).contains(&value) {
                return Err(Errno::EINVAL);
            }
            change(node, port, PortChange::GID, value, |state| Some(&mut state.gid.prefix));
        }
        command::SET_RATE => {
            let rate = code(value).ok().filter(|rate| *rate <= MAX_RATE).ok_or(Errno::EINVAL)?;
            set(&|state| state.told_rate = (rate != 0).then_some(rate));
        }
        command::SET_SPEED => {
            let speed = code(value).ok().filter(|speed| SPEEDS.contains(speed)).ok_or(Errno::EINVAL)?;
            set(&|state| state.speed = speed);
        }
        command::DELAY_SA => {
            let delay = if value <= MAX_DELAY { value as u32 } else { return Err(Errno::EINVAL) };
            set(&|state| state.sa_delay = delay);
        }
        command::COUNT_GROUPS => {
            let guid = node.with_port(port, |state| state.gid.guid).ok_or(Errno::ENXIO)?;
            return i32::try_from(node.subnet.groups_of(guid)).map_err(|_| Errno::EINVAL);
        }
        command::FAIL_CQS => return each_link(node, port, |qp| qp.fail_cqs()),
        command::FAIL_QPS => return each_link(node, port, |qp| qp.fail()),
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

/// Changes something of a port and raises the event of it, if it is another value and the port is up: whoever hears that a port comes up
/// asks for all of it, and hears of no change before. Whether it was raised.
fn change<T: PartialEq>(
    node: &Node,
    port: u8,
    what: PortChange,
    value: T,
    place: impl FnOnce(&mut Port) -> Option<&mut T>,
) -> bool {
    let due = node.with_port(port, |state| {
        let active = state.active;
        let Some(place) = place(state) else { return false };
        let changed = *place != value;
        *place = value;
        changed && active
    });
    if due == Some(true) {
        node.raise(port, PortEvent::Changed(what));
    }
    due == Some(true)
}

/// Pulls a port's cable, or plugs it in: events are of true changes only, since clients count them.
fn cable(node: &Node, port: u8, up: bool) {
    let changed = node.with_port(port, |state| {
        let changed = state.active != up;
        state.active = up;
        changed.then_some(state.gid)
    });
    if let Some(gid) = changed.flatten() {
        node.subnet.port_changed(gid, up);
        node.raise(port, if up { PortEvent::Up } else { PortEvent::Down });
    }
}

/// There is no event for another LID: the port goes and comes, and whoever hears of it asks for all of it.
#[inline(never)]
fn set_lid(node: &KArc<Node>, port: u8, lid: u16) -> Result<(), Errno> {
    if !(1..FIRST_MLID).contains(&lid) {
        return Err(Errno::EINVAL);
    }
    node.subnet.check_lid(node, port, lid)?;
    let was_active = node.port(port).is_some_and(|state| state.active);
    cable(node, port, false);
    let moved = node.subnet.set_lid(node, port, lid);
    if was_active {
        cable(node, port, true);
    }
    moved
}

#[inline(never)]
fn set_pkey(node: &Node, port: u8, index: u64, pkey: u16) -> Result<(), Errno> {
    let index = usize::try_from(index).ok().filter(|index| *index < PKEYS).ok_or(Errno::EINVAL)?;
    if pkey & 0x7fff != 0 {
        node.subnet.make_broadcast_group(pkey)?;
    }
    change(node, port, PortChange::PKEY, pkey, |state| state.pkeys.get_mut(index));
    Ok(())
}

/// Does something to each queue pair of a port that hears a group: to links, that is, and to nobody of the management.
fn each_link(node: &Node, port: u8, act: impl Fn(&KArc<Qp>)) -> Result<i32, Errno> {
    let mut count = 0;
    for qp in &node.queue_pairs()? {
        if qp.port() == port && node.subnet.hears_group(qp) {
            act(qp);
            count += 1;
        }
    }
    Ok(count)
}

/// One of a port's queue pairs, of datagrams or of a connection, fails by itself; how many there are, management's left out.
#[inline(never)]
fn fail_one(node: &Node, port: u8, which: u64) -> Result<i32, Errno> {
    let all = node.queue_pairs()?;
    let mine = || all.iter().filter(|qp| qp.port() == port && qp.ud().qkey != mad::QKEY);
    let count = mine().count() as u64;
    if let Some(qp) = which.checked_rem(count).and_then(|which| mine().nth(which as usize)) {
        qp.fail();
    }
    i32::try_from(count).map_err(|_| Errno::EINVAL)
}

fn log_statistics(node: &Node) {
    for counters in Counter::NAMED.chunks(9) {
        log!(note, NAME, "adapter {}: {}", node.unit, List { node, counters });
    }
}

/// Counters as the log has them, read as they are written.
struct List<'a> {
    node: &'a Node,
    counters: &'a [(Counter, &'static CStr)],
}

impl core::fmt::Display for List<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.counters.iter().try_for_each(|(counter, name)| {
            write!(f, "{} {} ", name.to_str().unwrap_or("?"), value(self.node, *counter))
        })
    }
}

#[inline(never)]
fn read_statistics(node: &Node, argument: UserMemory<'_>, values: Argument) -> Result<i32, Errno> {
    let [address, count, ..] = values;
    let all = Counter::NAMED.map(|(counter, _)| value(node, counter));
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(all.len());
    copy_out(argument.at(address), all.get(..count).unwrap_or_default())?;
    i32::try_from(all.len()).map_err(|_| Errno::EINVAL)
}

fn copy_out<T: Plain>(to: UserMemory<'_>, values: &[T]) -> Result<(), Errno> {
    if values.is_empty() { Ok(()) } else { to.write(values) }
}
