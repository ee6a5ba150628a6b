//! What happens to the ports of the software adapter and to the subnet manager inside it: by its own ioctls.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use fabric::Guid;
use fakekernel::{Ctx, Errno, Nanos};
use lab_world::Software;
use swhca_ioctl::{command, requests, sa};

use super::Scene;
use super::calls::Calls;
use super::hand::Hand;
use super::subnet::Undo;
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::trouble::{Event, LinkFaulty, SaDoes, SaRequest, SaTrouble};

/// The prefix of a subnet that nobody has given one.
const PREFIX: u64 = 0xfe80 << 48;
/// The LID of the first port at first.
const FIRST_LID: u16 = 1;

/// The adapter of all hosts, as it is now.
pub struct Adapter {
    software: Arc<Software>,
    infiniband: lab_ibtf::InfiniBand,
    /// Its ports' numbers, with the P_Keys of the links on them.
    ports: BTreeMap<u8, u16>,
    /// P_Key tables that are not as at first.
    tables: BTreeMap<u8, Vec<u16>>,
    sa_delay: u64,
    first_lid: u16,
    prefix: u64,
    silent: bool,
    /// What was done to the administrator of a port last, counted.
    troubles: BTreeMap<u8, u64>,
    calls: Calls,
    /// Events that came to nothing.
    in_vain: Vec<usize>,
}

impl Adapter {
    pub fn new(world: &World, software: &Arc<Software>) -> Self {
        let number = |host: &HostRun| Some((software.number_of(host.port)?, host.pkey));
        Self {
            software: software.clone(),
            infiniband: world.infiniband.clone(),
            ports: world.hosts.iter().filter_map(number).collect(),
            tables: BTreeMap::new(),
            sa_delay: u64::try_from(world.sa_delay.as_millis()).unwrap_or(u64::MAX),
            first_lid: FIRST_LID,
            prefix: PREFIX,
            silent: false,
            troubles: BTreeMap::new(),
            calls: Calls::default(),
            in_vain: Vec::new(),
        }
    }

    /// What needs memory has not happened when there is none.
    fn ioctl(&self, command: i32, argument: [u64; 4]) -> Result<()> {
        match self.software.ioctl(command, argument) {
            Ok(_) | Err(Errno::ENOMEM) => Ok(()),
            Err(errno) => Err(anyhow!("ioctl {command:#x} {argument:x?}: {errno}")),
        }
    }

    fn each_port(&self, command: i32, argument: [u64; 3]) -> Result<()> {
        let [one, two, three] = argument;
        self.ports.keys().try_for_each(|port| self.ioctl(command, [u64::from(*port), one, two, three]))
    }

    fn number(&self, host: &Hand) -> Result<u8> {
        self.software
            .number_of(host.port)
            .with_context(|| format!("{} has no port of the adapter", host.name))
    }

    fn cables(&self, plugged: bool) {
        self.ports.keys().for_each(|port| {
            self.infiniband.set_cable(self.software.port(*port), plugged);
        });
    }

    fn restart(&mut self) -> Result<()> {
        self.each_port(command::SILENCE_SA, [0; 3])?;
        self.silent = false;
        self.ioctl(command::RESTART_MANAGER, [0; 4])
    }

    /// All ports get the LIDs from another one on, in an order in which nobody gets one that another still has.
    fn renumber(&mut self, first: u16) -> Result<()> {
        let mut ports: Vec<u8> = self.ports.keys().copied().collect();
        if first > self.first_lid {
            ports.reverse();
        }
        for port in ports {
            let lid = first + u16::from(port) - 1;
            self.ioctl(command::SET_LID, [port.into(), lid.into(), 0, 0])?;
        }
        self.first_lid = first;
        Ok(())
    }

    /// The P_Key of a port's link to an index of the table, or out of it.
    fn place_pkey(&mut self, port: u8, index: Option<u16>) -> Result<()> {
        let Some(pkey) = self.ports.get(&port).copied() else { return Ok(()) };
        let begun = self.software.pkeys().to_vec();
        let table = self.tables.entry(port).or_insert(begun);
        let same = |entry: u16| (entry ^ pkey) & 0x7fff == 0;
        let mut changed = Vec::new();
        for (at, entry) in table.iter_mut().enumerate().filter(|(_, entry)| same(**entry)) {
            *entry = 0;
            changed.push((at, 0));
        }
        if let Some(index) = index {
            let at = usize::from(index);
            table.resize(table.len().max(at + 1), 0);
            let entry = table.get_mut(at).context("a place in the table")?;
            ensure!(*entry == 0, "index {index} of port {port}'s P_Key table has {entry:#x}");
            *entry = pkey;
            changed.push((at, pkey));
        }
        changed.into_iter().try_for_each(|(at, pkey)| {
            self.ioctl(command::SET_PKEY, [port.into(), at as u64, pkey.into(), 0])
        })
    }

    /// Every table as at first.
    fn restore_pkeys(&mut self) -> Result<()> {
        for (port, table) in std::mem::take(&mut self.tables) {
            let begun = self.software.pkeys();
            for (at, now) in table.iter().enumerate() {
                let then = begun.get(at).copied().unwrap_or(0);
                if *now != then {
                    self.ioctl(command::SET_PKEY, [port.into(), at as u64, then.into(), 0])?;
                }
            }
        }
        Ok(())
    }

    fn sa_trouble(&mut self, from: Option<&Hand>, trouble: &SaTrouble) -> Result<Option<(Nanos, Undo)>> {
        let port = from.map(|host| self.number(host)).transpose()?;
        let leaves = trouble.to.is_none_or(|to| to == SaRequest::Leave);
        if leaves && matches!(trouble.does, SaDoes::Refuses(_) | SaDoes::Empty) {
            self.software.refuse_leaves();
        }
        let ports = port.map_or_else(|| self.ports.keys().copied().collect(), |port| vec![port]);
        let mut serial = 0;
        for port in ports {
            let last = self.troubles.entry(port).or_default();
            *last += 1;
            serial = *last;
            self.well(port)?;
            let number = u64::from(port);
            match &trouble.does {
                SaDoes::Late(ms) => self.ioctl(command::DELAY_SA, [number, *ms, 0, 0])?,
                does => {
                    let kinds = trouble.to.map_or(0, kind);
                    let times = trouble.times.map_or(0, u64::from);
                    self.ioctl(command::TROUBLE_SA, [number, what(does), kinds, times])?;
                }
            }
        }
        let port = port.map_or(Guid(0), |port| self.software.port(port));
        Ok(Some((Nanos::from_millis(trouble.for_ms), Undo::Sa(port, serial))))
    }

    /// The administrator does for a port what it should.
    fn well(&self, port: u8) -> Result<()> {
        self.ioctl(command::TROUBLE_SA, [port.into(), sa::NOTHING, 0, 0])?;
        self.ioctl(command::DELAY_SA, [port.into(), self.sa_delay, 0, 0])
    }
}

impl Scene for Adapter {
    fn carry_out(&mut self, hands: &[Hand], number: usize, event: &Event) -> Result<Option<(Nanos, Undo)>> {
        let host = match event.host() {
            Some(name) => hands.iter().find(|hand| hand.name == *name.get_ref()),
            None => None,
        };
        match (event, host) {
            (Event::PortDown(_), Some(host)) => drop(self.infiniband.set_cable(host.port, false)),
            (Event::PortUp(_), Some(host)) => drop(self.infiniband.set_cable(host.port, true)),
            (Event::SwitchReboot(reboot), _) => {
                self.cables(false);
                return Ok(Some((Nanos::from_millis(reboot.for_ms), Undo::Cables)));
            }
            (Event::SmStop(_), _) => {
                self.silent = true;
                self.each_port(command::SILENCE_SA, [1, 0, 0])?;
            }
            (Event::SmRestart(back), _) => {
                self.restart()?;
                if back.lids_later > 0 {
                    self.renumber(FIRST_LID + back.lids_later)?;
                }
            }
            (Event::SmFailover(moves), _) => {
                let lid = *moves.lid.get_ref();
                self.each_port(command::MOVE_MANAGER, [lid.into(), 0, 0])?;
                self.restart()?;
            }
            (Event::RegistrationsLost(_), _) => self.ioctl(command::RESTART_MANAGER, [0; 4])?,
            (Event::SubnetPrefix(subnet), _) => {
                self.prefix = *subnet.prefix.get_ref();
                self.each_port(command::SET_PREFIX, [self.prefix, 0, 0])?;
                // It is another manager that says so, who knows of no memberships.
                self.restart()?;
            }
            (Event::Sa(trouble), _) => return self.sa_trouble(host, trouble),
            (Event::PkeyRemoved(_), Some(host)) => self.place_pkey(self.number(host)?, None)?,
            (Event::PkeyAdded(at), Some(host)) => {
                self.place_pkey(self.number(host)?, Some(*at.index.get_ref()))?;
            }
            (Event::AllocationFails(fails), Some(host)) => {
                self.in_vain.extend(self.calls.fail(number, &host.kernel, fails));
            }
            (Event::MemoryShort(short), Some(host)) => {
                return Ok(Some(self.calls.run_short(&host.kernel, short)));
            }
            (Event::CommandsSlow(slow), Some(host)) => return self.calls.slow(&host.kernel, slow),
            (Event::Link(link), Some(host)) => {
                let port = self.number(host)?;
                self.ioctl(command::LOSE_PACKETS, [port.into(), link.loss.into(), 0, 0])?;
                return Ok(Some((Nanos::from_millis(link.for_ms), Undo::Link(host.port))));
            }
            (Event::QpBreaks(_), Some(host)) => {
                self.ioctl(command::FAIL_QPS, [self.number(host)?.into(), 0, 0, 0])?;
            }
            (Event::OneQpBreaks(of), Some(host)) => {
                self.ioctl(command::FAIL_QP, [self.number(host)?.into(), of.number.into(), 0, 0])?;
            }
            (event, _) => return Err(anyhow!("{event:?} is nothing that happens to the software adapter")),
        }
        Ok(None)
    }

    fn undo(&mut self, undo: Undo) -> Result<()> {
        match undo {
            Undo::Cables => self.cables(true),
            Undo::Link(port) => {
                let number = self.software.number_of(port).context("a port of the adapter")?;
                self.ioctl(command::LOSE_PACKETS, [number.into(), 0, 0, 0])?;
            }
            Undo::Sa(Guid(0), _) => self.ports.keys().try_for_each(|port| self.well(*port))?,
            Undo::Sa(port, serial) => {
                let number = self.software.number_of(port).context("a port of the adapter")?;
                if self.troubles.get(&number) == Some(&serial) {
                    self.well(number)?;
                }
            }
            Undo::Commands(kernel) => lab_ibtf::set_command_time(&kernel, None),
            Undo::Memory(kernel, module) => self.calls.end_short(&kernel, module.as_ref()),
            Undo::Training(_) | Undo::Interrupts(_) | Undo::Sends(_) | Undo::Credits(_) | Undo::Strangers => {
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        self.in_vain.extend(self.calls.heal());
        self.each_port(command::LOSE_PACKETS, [0; 3])?;
        self.ports.keys().try_for_each(|port| self.well(*port))?;
        self.restore_pkeys()?;
        if std::mem::replace(&mut self.prefix, PREFIX) != PREFIX {
            self.each_port(command::SET_PREFIX, [PREFIX, 0, 0])?;
            self.restart()?;
        }
        if self.silent {
            self.restart()?;
        }
        // The next trouble begins with the LIDs that this one began with.
        if self.first_lid != FIRST_LID {
            self.renumber(FIRST_LID)?;
        }
        self.cables(true);
        Ok(())
    }

    fn in_vain(&self) -> &[usize] {
        &self.in_vain
    }
}

/// See [`crate::scenario::Step::Link`]: packets are lost, and nothing else.
pub fn faulty_link(software: &Arc<Software>, host: &HostRun, link: &LinkFaulty) -> Result<Findings> {
    let port = software.number_of(host.port).context("a port of the adapter")?;
    let lose = move |software: &Software, packets: u32| {
        software.ioctl(command::LOSE_PACKETS, [port.into(), packets.into(), 0, 0])
    };
    lose(software, link.loss).context("losing packets")?;
    let (span, software) = (Nanos::from_millis(link.for_ms), software.clone());
    let _ = host.kernel.spawn("end of faults", Ctx::User, move || {
        fakekernel::sleep(span);
        // There is such a port until the hosts are gone.
        let _ = lose(&software, 0);
    });
    Ok(Findings::new(format!("{}: {} packets of a million are lost for {span}", host.name, link.loss)))
}

fn what(does: &SaDoes) -> u64 {
    match does {
        SaDoes::Silent => sa::SILENT,
        SaDoes::LosesAnswer => sa::LOSES_ANSWER,
        SaDoes::Empty => sa::EMPTY,
        // The latter two are refused before a run.
        SaDoes::Late(_) | SaDoes::Lies(_) | SaDoes::Garbles(_) => sa::NOTHING,
        SaDoes::Refuses(status) => sa::REFUSES | u64::from(super::subnet::status(*status).0),
    }
}

const fn kind(request: SaRequest) -> u64 {
    match request {
        SaRequest::Path => requests::PATH,
        SaRequest::Join => requests::JOIN,
        SaRequest::Leave => requests::LEAVE,
        SaRequest::ListGroups => requests::LIST_GROUPS,
        SaRequest::Subscribe => requests::SUBSCRIBE,
    }
}
