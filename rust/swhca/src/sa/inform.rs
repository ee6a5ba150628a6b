//! Subscriptions and what subscribers are told (InformInfo, Notice, IBA 13.4.8).

use ibtf_provider::Gid;
use kernel::{KVec, MayBlock};

use super::Requester;
use super::node::SWITCH_GUID;
use crate::mad::{self, Mad, Refusal};
use crate::port::{MAX_ADAPTERS, MAX_PORTS};

/// What the subnet manager has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Trap {
    InService = 64,
    OutOfService = 65,
    GroupCreated = 66,
    GroupDeleted = 67,
}

impl Trap {
    /// By its number (IBA 14.2.5.1).
    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::InService, Self::OutOfService, Self::GroupCreated, Self::GroupDeleted]
            .into_iter()
            .find(|trap| *trap as u64 == number)
    }
}

/// Something that has happened to a port, or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) trap: Trap,
    pub(crate) gid: Gid,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Subscription {
    who: Requester,
    /// 0xffff for all.
    trap: u16,
    /// Of which kind of node: 4 is a subnet manager, 0xffffff all.
    producer: u32,
}

/// The kind of node that a subnet manager's notices come from.
const MANAGER: u32 = 4;
const ALL_TRAPS: u16 = 0xffff;
const ALL_PRODUCERS: u32 = 0xff_ffff;

/// Who wants to be told what. Bounded: each port of an adapter's framework makes four, of each trap one.
pub(super) struct Subscribers {
    list: KVec<Subscription>,
    transaction: u64,
}

const SUBSCRIPTIONS: usize = 4 * MAX_ADAPTERS as usize * MAX_PORTS as usize;

impl Subscribers {
    pub(super) fn new(may_block: &MayBlock) -> Self {
        Self { list: KVec::with_capacity_waiting(SUBSCRIPTIONS, may_block), transaction: 1 }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Ends what was subscribed to from a LID.
    pub(super) fn forget(&mut self, lid: u16) {
        while let Some(index) = self.list.iter().position(|one| one.who.lid == lid) {
            self.list.swap_remove(index);
        }
    }

    /// Subscribes, or ends a subscription; the request is its own answer. Who asks is known by where it asks from: the queue pair's
    /// number in the request is 0 when `ibmf` subscribes.
    pub(super) fn set(&mut self, request: &Mad, who: Requester) -> Result<(), Refusal> {
        let data = request.data();
        let wanted =
            Subscription { who, trap: mad::be16(data, 26), producer: mad::be32(data, 32) & 0xff_ffff };
        let present = self.list.iter().position(|one| *one == wanted);
        match (data[23], present) {
            (0, Some(index)) => {
                self.list.swap_remove(index);
                Ok(())
            }
            (0, None) => Err(Refusal::INVALID),
            (_, Some(_)) => Ok(()),
            (_, None) => self.list.push_within_capacity(wanted).map_err(|_| Refusal::NO_RESOURCES),
        }
    }

    /// Writes a report for the next one who wants to know, from `told` on, which moves behind that one.
    pub(super) fn tell(&mut self, notice: &Notice, told: &mut usize, report: &mut Mad) -> Option<Requester> {
        let trap = notice.trap as u16;
        let wants = |one: &Subscription| {
            [trap, ALL_TRAPS].contains(&one.trap) && [MANAGER, ALL_PRODUCERS].contains(&one.producer)
        };
        let (index, one) = self.list.iter().enumerate().skip(*told).find(|(_, one)| wants(one))?;
        *told = index + 1;
        self.transaction += 1;
        report.begin_report(self.transaction);
        let data = report.data_mut();
        // Generic, for information; from a subnet manager.
        mad::put32(data, 0, 0x8300_0000 | MANAGER);
        mad::put16(data, 4, trap);
        mad::put_gid(data, 16, notice.gid);
        mad::put_gid(data, 64, Gid { prefix: 0xfe80 << 48, guid: SWITCH_GUID });
        Some(one.who)
    }
}
