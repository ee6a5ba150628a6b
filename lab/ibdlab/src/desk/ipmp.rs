//! Groups of interfaces: `ipadm create-ipmp` and its kin, and what `ipmpstat` shows.

use std::net::IpAddr;
use std::sync::Arc;

use admin::{Group, GroupAddress, GroupMember};
use fakekernel::Errno;
use lab_gldv3::LinkState;
use lab_ip::ipmp::Spread;
use lab_ip::stack::Stack;

use super::ip::HostIp;
use super::plumbed::{Plumbed, Role};
use crate::host::{IpThread, Membership, Upper};

impl HostIp {
    /// An interface without members.
    ///
    /// # Errors
    ///
    /// EEXIST; ENOTSUP on a host whose interfaces are Linux's.
    pub fn create_group(&self, name: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        if self.namespace.is_some() {
            return Err(Errno::ENOTSUP);
        }
        if self.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let membership = Arc::new(Membership::default());
        let seed = self.seed;
        let stack = |info| -> Box<dyn Upper> { Box::new(Stack::of_group(info, seed)) };
        let ip = IpThread::over_members(&self.kernel, name, membership.clone(), stack);
        self.enter(Plumbed::new(name, ip, None, Role::Group(membership)));
        Ok(())
    }

    /// # Errors
    ///
    /// ENXIO when there is no such group, EBUSY while it has members.
    pub fn delete_group(&self, name: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (index, group, membership) = self.find_group(name)?;
        if !membership.names().is_empty() {
            return Err(Errno::EBUSY);
        }
        self.take_away(index, &group);
        Ok(())
    }

    /// # Errors
    ///
    /// ENXIO when there is no such group or interface, EINVAL for one that cannot be a member, EBUSY for one that is in a group
    /// already or has addresses.
    pub fn add_to_group(&self, name: &str, interface: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (_, group, membership) = self.find_group(name)?;
        let (_, member) = self.find(interface).ok_or(Errno::ENXIO)?;
        match member.role() {
            Role::Alone => {}
            Role::Member { .. } => return Err(Errno::EBUSY),
            Role::Group(_) => return Err(Errno::EINVAL),
        }
        if !member.objects.lock().is_empty() {
            return Err(Errno::EBUSY);
        }
        group.ip.take_in(&member.ip);
        member.set_role(Role::Member { group: name.to_owned() });
        membership.add(interface, member.ip.clone());
        group.ip.refresh();
        Ok(())
    }

    /// # Errors
    ///
    /// ENXIO when there is no such group, or the interface is not in it.
    pub fn remove_from_group(&self, name: &str, interface: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (_, group, membership) = self.find_group(name)?;
        let (_, member) = self.find(interface).ok_or(Errno::ENXIO)?;
        if !matches!(member.role(), Role::Member { group } if group == name) {
            return Err(Errno::ENXIO);
        }
        membership.remove(interface);
        let info = member.ip.with_upper(|upper| upper.link().info());
        member.ip.replace(Box::new(Stack::new(info, Vec::new(), self.seed).probing()));
        member.set_role(Role::Alone);
        group.ip.refresh();
        Ok(())
    }

    fn find_group(&self, name: &str) -> Result<(u32, Arc<Plumbed>, Arc<Membership>), Errno> {
        let (index, plumbed) = self.find(name).ok_or(Errno::ENXIO)?;
        match plumbed.role() {
            Role::Group(membership) => Ok((index, plumbed, membership)),
            Role::Alone | Role::Member { .. } => Err(Errno::ENXIO),
        }
    }

    /// Every group as it is now.
    pub fn groups(&self) -> Vec<Group> {
        let of = |plumbed: &Plumbed| match plumbed.role() {
            Role::Group(membership) => Some(self.group(&plumbed.name, &membership.spread())),
            Role::Alone | Role::Member { .. } => None,
        };
        self.all().iter().filter_map(|(_, plumbed)| of(plumbed)).collect()
    }

    fn group(&self, name: &str, spread: &Spread) -> Group {
        let link =
            |name: &str| self.find(name).map_or(LinkState::Unknown, |(_, plumbed)| plumbed.ip.link_state());
        let members = spread.members().iter().map(|member| GroupMember {
            name: member.name.clone(),
            link: link(&member.name),
            active: member.active,
            nominated: spread.nominated() == Some(member.name.as_str()),
        });
        let addresses = spread.owners().iter().map(|(cidr, owner)| GroupAddress {
            address: IpAddr::from(cidr.address()),
            member: owner.clone(),
        });
        Group { name: name.to_owned(), members: members.collect(), addresses: addresses.collect() }
    }
}
