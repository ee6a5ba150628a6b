//! A group of interfaces that serve the same addresses (IP network multipathing).
//!
//! The group has a thread with a stack, and no link: what that sends is given to the member that serves the packet's source
//! address, and that member resolves the next hop on its own link. What members receive goes up to the group's thread. A member
//! whose carrier goes says so to the group's thread, which moves its addresses to another member; that announces them. A member
//! without a carrier sends nothing, and forgets what waited.
//!
//! Locks are taken from a member to its group, never the other way: the group's thread holds none of its own when it speaks to
//! a member.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fakekernel::{Errno, HostMutex, Nanos};
use lab_gldv3::{LinkState, OffloadCapability, Received, TransmitError};
use lab_ip::ipmp::{Spread, Standing};
use lab_ip::layer::{Frame, IpLink, LinkInfo, Packet, Wanted};
use lab_ip::link_addr::LinkAddr;
use smoltcp::wire::{IpCidr, Ipv4Packet, Ipv6Packet};

use super::below::Below;
use super::thread::{IpThread, now};
use super::upper::Upper;

/// Largest IP packet of a group without members.
const DEFAULT_SDU: usize = 2044;

/// Who is in a group, and who serves what: shared by the group's thread and whoever administers it.
#[derive(Default)]
pub struct Membership {
    members: HostMutex<Vec<(String, Arc<IpThread>)>>,
    spread: HostMutex<Spread>,
}

impl Membership {
    /// Takes an interface in; [`Membership::remove`] lets it go. The group's thread is to be woken after either.
    pub fn add(&self, name: &str, ip: Arc<IpThread>) {
        self.members.lock().push((name.to_owned(), ip));
    }

    pub fn remove(&self, name: &str) {
        self.members.lock().retain(|(known, _)| known != name);
    }

    pub fn names(&self) -> Vec<String> {
        self.members.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Who serves what, as the group's thread last decided it.
    pub fn spread(&self) -> Spread {
        self.spread.lock().clone()
    }

    fn all(&self) -> Vec<(String, Arc<IpThread>)> {
        self.members.lock().clone()
    }
}

/// What a member was last told: addresses, groups, whether it hears for all, and the link addresses of all members.
type Told = (Vec<IpCidr>, BTreeSet<LinkAddr>, bool, BTreeSet<LinkAddr>);

/// Below a group's stack: its members.
pub struct Members {
    membership: Arc<Membership>,
    told: BTreeMap<String, Told>,
}

impl Members {
    pub fn new(membership: Arc<Membership>) -> Self {
        Self { membership, told: BTreeMap::new() }
    }
}

impl Below for Members {
    fn info(&self) -> LinkInfo {
        let infos: Vec<LinkInfo> =
            self.membership.all().iter().map(|(_, ip)| ip.with_upper(|upper| upper.link().info())).collect();
        LinkInfo {
            own: LinkAddr::ZERO,
            broadcast: infos.first().map_or(LinkAddr::ZERO, |info| info.broadcast),
            sdu: infos.iter().map(|info| info.sdu).min().unwrap_or(DEFAULT_SDU),
            offload: OffloadCapability::default(),
        }
    }

    fn follow(&mut self, addresses: &[IpCidr], groups: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Errno)> {
        let members = self.membership.all();
        let standing = |(name, ip): &(String, Arc<IpThread>)| Standing {
            name: name.clone(),
            active: ip.link_state() == LinkState::Up,
        };
        let spread = {
            let mut spread = self.membership.spread.lock();
            spread.update(members.iter().map(standing).collect(), addresses);
            spread.clone()
        };
        let places: BTreeSet<LinkAddr> =
            members.iter().map(|(_, ip)| ip.with_upper(|upper| upper.link().info().own)).collect();
        self.told.retain(|name, _| members.iter().any(|(known, _)| known == name));
        let wanted = |name: &str| -> Told {
            let nominated = spread.nominated() == Some(name);
            let groups = if nominated { groups.clone() } else { BTreeSet::new() };
            (spread.of(name).collect(), groups, nominated, places.clone())
        };
        // Who loses addresses loses them before another announces them.
        let mut changed: Vec<(&Arc<IpThread>, &str, Told)> = members
            .iter()
            .map(|(name, ip)| (ip, name.as_str(), wanted(name)))
            .filter(|(_, name, wanted)| self.told.get(*name) != Some(wanted))
            .collect();
        changed.sort_by_key(|(_, _, (addresses, ..))| addresses.len());
        for (ip, name, wanted) in changed {
            let (fixed, groups, nominated, siblings) = wanted.clone();
            ip.change(|upper| {
                upper.set_addresses(Wanted { fixed, ..Wanted::default() });
                upper.hear(groups, nominated, siblings);
            });
            self.told.insert(name.to_owned(), wanted);
        }
        Vec::new()
    }

    fn transmit(&mut self, frame: Frame, _deadline: Nanos) -> Result<(), TransmitError> {
        let spread = self.membership.spread();
        let source = source(&frame.payload);
        let owner = spread.owners().iter().find(|(cidr, _)| Some(IpAddr::from(cidr.address())) == source);
        let name = owner.and_then(|(_, owner)| owner.as_deref()).or(spread.nominated());
        let members = self.membership.all();
        let member = members.iter().find(|(known, _)| Some(known.as_str()) == name);
        // A group whose members have all failed has nowhere to put it.
        let (_, ip) = member.ok_or(TransmitError::NotBound)?;
        let packet = Packet { bytes: frame.payload, offload: frame.offload };
        ip.change(|upper| upper.link_mut().send(now(), packet));
        Ok(())
    }

    fn carrier(&self) -> Option<LinkState> {
        let up = self.membership.all().iter().any(|(_, ip)| ip.link_state() == LinkState::Up);
        Some(if up { LinkState::Up } else { LinkState::Down })
    }
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Packet::new_checked(packet).ok()?.src_addr().into()),
        6 => Some(Ipv6Packet::new_checked(packet).ok()?.src_addr().into()),
        _ => None,
    }
}

/// Above the link of a member.
pub struct Member {
    link: IpLink,
    up: bool,
    /// Groups that it hears for the group, and whether it takes what is for all.
    groups: BTreeSet<LinkAddr>,
    nominated: bool,
    /// Gives a packet to the group.
    hand_up: Box<dyn Fn(Received) + Send>,
    /// Tells the group that something has changed.
    tell: Box<dyn Fn() + Send>,
}

impl Member {
    pub fn new(
        info: LinkInfo,
        up: bool,
        hand_up: impl Fn(Received) + Send + 'static,
        tell: impl Fn() + Send + 'static,
    ) -> Self {
        let (hand_up, tell) = (Box::new(hand_up), Box::new(tell));
        let link = IpLink::new(info, Vec::new());
        Self { link, up, groups: BTreeSet::new(), nominated: false, hand_up, tell }
    }
}

impl Upper for Member {
    fn set_info(&mut self, info: LinkInfo) {
        let changed = info != self.link.info();
        self.link.set_info(info);
        if changed {
            (self.tell)();
        }
    }

    fn set_up(&mut self, up: bool) {
        self.link.set_up(up);
        if up == self.up {
            return;
        }
        self.up = up;
        if !up {
            self.link.forget();
        }
        (self.tell)();
    }

    fn set_addresses(&mut self, wanted: Wanted) {
        self.link.set_addresses(wanted);
    }

    fn hear(&mut self, groups: BTreeSet<LinkAddr>, nominated: bool, siblings: BTreeSet<LinkAddr>) {
        self.link.set_siblings(siblings);
        (self.groups, self.nominated) = (groups, nominated);
    }

    fn receive(&mut self, now: Duration, mut frame: Received) {
        let for_all = LinkAddr(frame.destination.0).is_group();
        let payload = std::mem::take(&mut frame.payload);
        if let Some(packet) = self.link.receive(now, frame.sap, payload)
            && (self.nominated || !for_all)
        {
            (self.hand_up)(Received { payload: packet, ..frame });
        }
    }

    fn poll(&mut self, now: Duration) {
        if self.up {
            self.link.poll(now);
        }
    }

    fn transmit(&mut self) -> Option<Frame> {
        if !self.up {
            self.link.forget();
        }
        self.link.transmit()
    }

    fn poll_at(&mut self, _now: Duration) -> Option<Duration> {
        self.link.poll_at().filter(|_| self.up)
    }

    fn link(&self) -> &IpLink {
        &self.link
    }

    fn link_mut(&mut self) -> &mut IpLink {
        &mut self.link
    }

    fn link_groups(&self) -> BTreeSet<LinkAddr> {
        self.link.link_groups().union(&self.groups).copied().collect()
    }
}
