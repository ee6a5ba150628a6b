//! What happens to the subnet, its manager and the adapters, and how it is made good.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use fabric::subnet::Trained;
use fabric::{Direction, Guid, LinkFaults, Only, PKey, Pick, Probability};
use fakekernel::{Ctx, Kernel, Nanos};
use lab_ibtf::saa::EmbeddedSm;
use sm::fault::{FaultAction, Lie};
use sm::mad::{Attribute, Method, Status};
use sm::partition::{SCOPE_LINK_LOCAL, broadcast_mgid};
use sm::{Fault, Lid};
use std::sync::Arc;

use super::calls::Calls;
use super::hand::Hand;
use super::strangers;
use super::strangers::Flood;
use super::{Scene, software};
use crate::packets;
use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::Membership;
use crate::scenario::trouble::{
    Event, LinkFaulty, LinkRetrains, SaDoes, SaLie, SaRequest, SaStatus, SaTrouble,
};

/// Management class of the communication manager.
const CM: u8 = 7;

/// Whom things happen to, and what holds now.
pub struct Subnet {
    infiniband: lab_ibtf::InfiniBand,
    sm: Arc<EmbeddedSm>,
    habit: Option<Fault>,
    /// The P_Keys that make hosts' links, by port.
    ports: BTreeMap<Guid, PKey>,
    partitions: Vec<sm::Partition>,
    prefix: u64,
    calls: Calls,
    /// Every one that has begun.
    floods: Vec<Flood>,
    /// The events that the SA's misdeeds are for, the last one first, as in its script.
    misdeeds: Vec<usize>,
    /// Events that came to nothing.
    in_vain: Vec<usize>,
}

/// The end of something that lasts a time.
pub enum Undo {
    /// All cables are in again.
    Cables,
    /// A port's link trains to all that the port can again.
    Training(Guid),
    /// A port's link is perfect again.
    Link(Guid),
    /// An adapter's interrupts are prompt again.
    Interrupts(Guid),
    /// An adapter completes sends again.
    Sends(Guid),
    /// An adapter's ports get credits again.
    Credits(Guid),
    /// The commands of a host to its adapters take no time again.
    Commands(Kernel),
    /// There is memory again for the modules of a host, or for one of them.
    Memory(Kernel, Option<String>),
    /// A flood of forged packets is over.
    Strangers,
    /// The administrator inside an adapter does for a port what it should, unless something else was done to it since.
    Sa(Guid, u64),
}

impl Subnet {
    pub fn new(world: &World) -> Result<Self> {
        let sm = world
            .infiniband
            .sm()
            .ok_or_else(|| anyhow!("trouble needs the embedded subnet manager, this run has another"))?;
        let (partitions, prefix) = sm.inspect(|sm| (sm.config().partitions.clone(), sm.config().sa.prefix));
        Ok(Self {
            infiniband: world.infiniband.clone(),
            sm,
            habit: world.sa_habit,
            ports: world.hosts.iter().map(|host| (host.port, PKey(host.pkey))).collect(),
            partitions,
            prefix,
            calls: Calls::default(),
            floods: Vec::new(),
            misdeeds: Vec::new(),
            in_vain: Vec::new(),
        })
    }

    /// A port of an adapter that is pulled has no cable.
    fn cable(&self, port: Guid, plugged: bool) {
        self.infiniband.set_cable(port, plugged);
    }
}

impl Scene for Subnet {
    fn carry_out(&mut self, hands: &[Hand], number: usize, event: &Event) -> Result<Option<(Nanos, Undo)>> {
        let host = match event.host() {
            Some(name) => hands.iter().find(|hand| hand.name == *name.get_ref()),
            None => None,
        };
        match (event, host) {
            (Event::PortDown(_), Some(host)) => self.cable(host.port, false),
            (Event::PortUp(_), Some(host)) => self.cable(host.port, true),
            (Event::LinkRetrains(link), Some(host)) => {
                self.retrain(host.port, link);
                return Ok(Some((Nanos::from_millis(link.for_ms), Undo::Training(host.port))));
            }
            (Event::SwitchReboot(reboot), _) => {
                self.ports.keys().for_each(|port| self.cable(*port, false));
                return Ok(Some((Nanos::from_millis(reboot.for_ms), Undo::Cables)));
            }
            (Event::SmStop(_), _) => self.sm.stop(),
            (Event::SmRestart(back), _) if back.lids_later > 0 => {
                let first = Lid(1 + back.lids_later);
                self.sm.restart_with_other_lids(mlids_from(back.mlids_later), first);
            }
            (Event::SmRestart(back), _) => self.sm.restart(mlids_from(back.mlids_later)),
            (Event::SmFailover(moves), _) => {
                self.check_lid(*moves.lid.get_ref())?;
                self.sm.fail_over(Lid(*moves.lid.get_ref()), mlids_from(moves.mlids_later));
            }
            (Event::RegistrationsLost(_), _) => self.sm.restart(mlids_from(0)),
            (Event::SubnetPrefix(subnet), _) => self.sm.renumber(*subnet.prefix.get_ref()),
            (Event::Sa(trouble), _) => self.sa_trouble(number, host, trouble)?,
            (Event::PkeyRemoved(_), Some(host)) => self.place_pkey(host.port, None)?,
            (Event::PkeyAdded(at), Some(host)) => self.place_pkey(host.port, Some(*at.index.get_ref()))?,
            (Event::Membership(to), Some(host)) => self.have_as(host.port, to.to)?,
            (Event::GroupDeleted(_), _) => self.delete_groups(),
            (Event::GroupCreated(_), _) => self.sm.set_partitions(self.partitions.clone()),
            (Event::AllocationFails(fails), Some(host)) => {
                self.in_vain.extend(self.calls.fail(number, &host.kernel, fails));
            }
            (Event::MemoryShort(short), Some(host)) => {
                return Ok(Some(self.calls.run_short(&host.kernel, short)));
            }
            (Event::Link(link), Some(host)) => {
                let faults = link_faults(link);
                self.infiniband.fabric().set_faults(host.port, faults, faults);
                return Ok(Some((Nanos::from_millis(link.for_ms), Undo::Link(host.port))));
            }
            (Event::CmLost(lost), Some(host)) => {
                let only = Only::Management { class: CM, attribute: lost.message.attribute() };
                let pick = Pick { only, skip: 0, times: lost.times };
                self.infiniband.fabric().lose(host.port, Direction::ToSwitch, pick);
            }
            (Event::InterruptsLate(late), Some(host)) => {
                let adapter = adapter(host.port);
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    let span = [late.from_us, late.to_us].map(|us| fabric::Nanos(us * 1_000));
                    hca.set_late_interrupts(Some((span[0], span[1].max(span[0]))));
                }
                return Ok(Some((Nanos::from_millis(late.for_ms), Undo::Interrupts(adapter))));
            }
            (Event::CommandsSlow(slow), Some(host)) => return self.calls.slow(&host.kernel, slow),
            (Event::SendsHang(hang), Some(host)) => {
                let adapter = adapter(host.port);
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    hca.set_sends_hang(true);
                }
                return Ok(Some((Nanos::from_millis(hang.for_ms), Undo::Sends(adapter))));
            }
            (Event::NoCredits(without), Some(host)) => {
                let adapter = adapter(host.port);
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    hca.set_no_credits(true);
                }
                return Ok(Some((Nanos::from_millis(without.for_ms), Undo::Credits(adapter))));
            }
            (Event::SendFails(_), Some(host)) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter(host.port)) {
                    hca.fail_next_send();
                }
            }
            (Event::QpBreaks(_), Some(host)) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter(host.port)) {
                    for qpn in hca.qpns() {
                        hca.break_qpn(qpn);
                    }
                }
            }
            (Event::OneQpBreaks(of), Some(host)) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter(host.port)) {
                    let qpns = hca.qpns();
                    if let Some(which) = usize::from(of.number).checked_rem(qpns.len()) {
                        hca.break_qpn(qpns[which]);
                    }
                }
            }
            (Event::Packet(packet), Some(host)) => {
                let content = packets::Content::Malformed(packet.kind);
                packets::inject(&self.infiniband, &self.sm, target(host), &content);
            }
            (Event::RawPacket(packet), Some(host)) => {
                let bytes = packet.payload();
                let content = packets::Content::Raw(&bytes, packet.broadcast);
                packets::inject(&self.infiniband, &self.sm, target(host), &content);
            }
            (Event::Strangers(strangers), Some(host)) => {
                let target = strangers::Target::of(host, hands);
                self.floods.push(Flood::begin(&self.infiniband, &self.sm, &host.kernel, target, strangers));
                return Ok(Some((Nanos::from_millis(strangers.for_ms), Undo::Strangers)));
            }
            (event, _) => return Err(anyhow!("{event:?} is nothing that happens to the subnet")),
        }
        Ok(None)
    }

    fn undo(&mut self, undo: Undo) -> Result<()> {
        match undo {
            Undo::Cables => self.ports.keys().for_each(|port| self.cable(*port, true)),
            Undo::Link(port) => {
                let perfect = LinkFaults::default();
                self.infiniband.fabric().set_faults(port, perfect, perfect);
            }
            Undo::Training(port) => self.infiniband.retrain(port, None),
            Undo::Sends(adapter) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    hca.set_sends_hang(false);
                }
            }
            Undo::Credits(adapter) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    hca.set_no_credits(false);
                }
            }
            Undo::Commands(kernel) => lab_ibtf::set_command_time(&kernel, None),
            Undo::Memory(kernel, module) => self.calls.end_short(&kernel, module.as_ref()),
            Undo::Interrupts(adapter) => {
                if let Some(hca) = self.infiniband.fabric().hca(adapter) {
                    hca.set_late_interrupts(None);
                }
            }
            // Each ends by itself.
            Undo::Strangers => {}
            Undo::Sa(..) => {}
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        self.floods.drain(..).for_each(Flood::end);
        self.in_vain.extend(self.calls.heal());
        for port in self.ports.keys().copied().collect::<Vec<_>>() {
            self.infiniband.fabric().lose_no_more(port);
            self.undo(Undo::Link(port))?;
            self.undo(Undo::Training(port))?;
            self.undo(Undo::Interrupts(adapter(port)))?;
            self.undo(Undo::Sends(adapter(port)))?;
            self.undo(Undo::Credits(adapter(port)))?;
        }
        let misdeeds = std::mem::take(&mut self.misdeeds);
        self.sm.faults(|script| {
            let idle = misdeeds.into_iter().zip(script.hits()).filter(|(_, hits)| *hits == 0);
            self.in_vain.extend(idle.map(|(event, _)| event));
            script.clear();
            self.habit.into_iter().for_each(|habit| script.push(habit));
        });
        let (running, prefix) = self.sm.inspect(|sm| (sm.is_running(), sm.config().sa.prefix));
        if prefix != self.prefix {
            self.sm.renumber(self.prefix);
        } else if !running {
            self.sm.restart(mlids_from(0));
        }
        self.undo(Undo::Cables)?;
        // Brings permanent groups and P_Key tables back.
        self.sm.set_partitions(self.partitions.clone());
        Ok(())
    }

    fn in_vain(&self) -> &[usize] {
        &self.in_vain
    }
}

impl Subnet {
    /// Ends the broadcast group of each partition: that which the manager makes, or else that which hosts make.
    fn delete_groups(&self) {
        for partition in &self.partitions {
            let made_by_host = broadcast_mgid(partition.p_key, SCOPE_LINK_LOCAL);
            self.sm.delete_group(partition.groups.first().map_or(made_by_host, |group| group.mgid));
        }
    }

    fn retrain(&self, port: Guid, link: &LinkRetrains) {
        let fabric = self.infiniband.fabric();
        // The port of a pulled adapter has no link.
        let Some(attr) = fabric.subnet_port(port).map(|view| view.attr) else { return };
        let to = link.changed(Trained { width: attr.width, speed: attr.speed, mtu: attr.mtu_cap });
        match link.quietly {
            true => drop(fabric.train(port, Some(to))),
            false => self.infiniband.retrain(port, Some(to)),
        }
    }

    /// A LID that no host's port has.
    fn check_lid(&self, lid: u16) -> Result<()> {
        let ports = self.infiniband.fabric().subnet_ports();
        let has = |view: &fabric::subnet::PortView| {
            let bits = view.attr.lmc.lids() - 1;
            view.attr.lid.is_unicast() && view.attr.lid.0 & !bits == lid & !bits
        };
        let holder = ports.into_iter().find(has);
        let Some(holder) = holder else { return Ok(()) };
        Err(anyhow!("LID {lid:#x} is taken: port {} has it", holder.attr.guid))
    }

    /// Puts the P_Key of a port's link at `index` of its table, or nowhere.
    fn place_pkey(&self, port: Guid, index: Option<u16>) -> Result<()> {
        let Some(pkey) = self.ports.get(&port) else { return Ok(()) };
        let ports = self.infiniband.fabric().subnet_ports();
        // That of a pulled adapter has no table.
        let Some(view) = ports.into_iter().find(|view| view.attr.guid == port) else { return Ok(()) };
        let mut table = view.attr.pkeys;
        for entry in table.iter_mut().filter(|entry| (entry.0 ^ pkey.0) & 0x7fff == 0) {
            *entry = PKey(0);
        }
        if let Some(index) = index {
            let entry = table.get_mut(usize::from(index));
            *entry.with_context(|| format!("the P_Key table has no index {index}"))? = *pkey;
        }
        self.infiniband.fabric().set_pkeys(port, &table)?;
        Ok(())
    }

    /// Has the P_Key of a port's link in its table as that of a full member, of a limited one, or both.
    fn have_as(&self, port: Guid, membership: Membership) -> Result<()> {
        let Some(pkey) = self.ports.get(&port) else { return Ok(()) };
        let Some(view) = self.infiniband.fabric().subnet_port(port) else { return Ok(()) };
        let mut table = view.attr.pkeys;
        let is_own = |entry: &PKey| (entry.0 ^ pkey.0) & 0x7fff == 0;
        let at = table.iter().position(is_own).unwrap_or_default();
        table.iter_mut().filter(|entry| is_own(entry)).for_each(|entry| *entry = PKey(0));
        let (full, limited) = (PKey(pkey.0 | 0x8000), PKey(pkey.0 & 0x7fff));
        if let Some(entry) = table.get_mut(at) {
            *entry = if membership == Membership::Limited { limited } else { full };
        }
        if let (Membership::Both, Some(free)) = (membership, table.iter_mut().find(|entry| entry.0 == 0)) {
            *free = limited;
        }
        self.infiniband.fabric().set_pkeys(port, &table)?;
        Ok(())
    }

    fn sa_trouble(&mut self, number: usize, from: Option<&Hand>, trouble: &SaTrouble) -> Result<()> {
        let now = sm::Nanos(fakekernel::now().0);
        let from = match from {
            None => None,
            Some(host) => {
                let ports = self.infiniband.fabric().subnet_ports();
                // A port without a LID asks nobody.
                let view = ports.into_iter().find(|view| view.attr.guid == host.port);
                let Some(view) = view else {
                    self.in_vain.push(number);
                    return Ok(());
                };
                Some(view.attr.lid)
            }
        };
        let (attribute, method) = trouble.to.map(what).unzip();
        let fault = Fault {
            attribute,
            method,
            from,
            start: now,
            end: Some(now.after(sm::Nanos::from_millis(trouble.for_ms))),
            count: trouble.times,
            action: action(&trouble.does),
        };
        self.sm.faults(|script| script.push_front(fault));
        self.misdeeds.insert(0, number);
        Ok(())
    }
}

/// See [`crate::scenario::Step::Link`].
pub fn faulty_link(world: &World, link: &LinkFaulty) -> Result<Findings> {
    let host = world.host(link.host.get_ref())?;
    if let Some(software) = &world.software {
        return software::faulty_link(software, host, link);
    }
    let (fabric, port, faults) = (world.infiniband.fabric().clone(), host.port, link_faults(link));
    fabric.set_faults(port, faults, faults);
    let span = Nanos::from_millis(link.for_ms);
    let _ = host.kernel.spawn("end of faults", Ctx::User, move || {
        fakekernel::sleep(span);
        fabric.set_faults(port, LinkFaults::default(), LinkFaults::default());
    });
    Ok(Findings::new(format!("{}: faulty for {span}", host.name)))
}

/// Node GUID of the adapter with this port.
const fn target(host: &Hand) -> packets::Target {
    packets::Target { hca: adapter(host.port), port: host.port, pkey: host.pkey }
}

pub const fn adapter(port: Guid) -> Guid {
    Guid(port.0 - 1)
}

fn mlids_from(later: u16) -> Lid {
    Lid(Lid::FIRST_MULTICAST.0.saturating_add(later))
}

fn link_faults(link: &LinkFaulty) -> LinkFaults {
    let micros = |us: u64| fabric::Nanos(us * 1_000);
    LinkFaults {
        only: fabric::Only::All,
        loss: Probability::per_million(link.loss),
        duplicate: Probability::per_million(link.duplicate),
        corrupt: Probability::per_million(link.corrupt),
        corrupt_inside: Probability::per_million(link.corrupt_inside),
        reorder: Probability::per_million(link.reorder),
        reorder_by: micros(link.reorder_by_us),
        delay: micros(link.delay_us),
        jitter: micros(link.jitter_us),
    }
}

const fn what(request: SaRequest) -> (Attribute, Method) {
    match request {
        SaRequest::Path => (Attribute::PATH_RECORD, Method::GET_TABLE),
        SaRequest::Join => (Attribute::MC_MEMBER_RECORD, Method::SET),
        SaRequest::Leave => (Attribute::MC_MEMBER_RECORD, Method::DELETE),
        SaRequest::ListGroups => (Attribute::MC_MEMBER_RECORD, Method::GET_TABLE),
        SaRequest::Subscribe => (Attribute::INFORM_INFO, Method::SET),
    }
}

fn action(does: &SaDoes) -> FaultAction {
    match does {
        SaDoes::Silent => FaultAction::Silent,
        SaDoes::LosesAnswer => FaultAction::LoseAnswer,
        SaDoes::Empty => FaultAction::Empty,
        SaDoes::Late(ms) => FaultAction::Delay(sm::Nanos::from_millis(*ms)),
        SaDoes::Refuses(refused) => FaultAction::Refuse(status(*refused)),
        SaDoes::Lies(lie) => FaultAction::Lie(told(*lie)),
        SaDoes::Garbles(garbled) => FaultAction::Garble(garbled.told()),
    }
}

const fn told(lie: SaLie) -> Lie {
    match lie {
        SaLie::OtherGid => Lie::OtherGid,
        SaLie::NoLid => Lie::NoLid,
        SaLie::LidOfOtherKind => Lie::LidOfOtherKind,
        SaLie::OtherLid => Lie::OtherLid,
        SaLie::LargestMtu => Lie::LargestMtu,
        SaLie::UnknownRate => Lie::UnknownRate,
        SaLie::OtherSl => Lie::OtherSl,
        SaLie::OtherQkey => Lie::OtherQKey,
        SaLie::ForeignPkey => Lie::ForeignPKey,
        SaLie::OneWay => Lie::OneWay,
        SaLie::TwoRecords => Lie::TwoRecords,
    }
}

pub const fn status(refused: SaStatus) -> Status {
    match refused {
        SaStatus::Busy => Status::BUSY,
        SaStatus::UnsupportedMethod => Status::UNSUPPORTED_METHOD,
        SaStatus::InvalidField => Status::INVALID_FIELD,
        SaStatus::NoResources => Status::NO_RESOURCES,
        SaStatus::ReqInvalid => Status::REQ_INVALID,
        SaStatus::NoRecords => Status::NO_RECORDS,
        SaStatus::TooManyRecords => Status::TOO_MANY_RECORDS,
        SaStatus::ReqInvalidGid => Status::REQ_INVALID_GID,
        SaStatus::ReqInsufficientComponents => Status::REQ_INSUFFICIENT_COMPONENTS,
        SaStatus::ReqDenied => Status::REQ_DENIED,
    }
}
