//! Which member of a group serves which of the group's addresses (IP network multipathing, `ipmp.c` of illumos).
//!
//! Pure: members and addresses go in, who serves what comes out. Every member is active that has a carrier; there are no standby
//! members and no probes.

use smoltcp::wire::IpCidr;

/// A member, as far as this matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Of its IP interface.
    pub name: String,
    /// It has a carrier.
    pub active: bool,
}

/// Who serves each address. It stays where it is as long as that is fair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    members: Vec<Standing>,
    owners: Vec<(IpCidr, Option<String>)>,
}

impl Spread {
    /// The members or the addresses changed. An address leaves a member that has failed at once; one that is back gets addresses
    /// until no active member has two more than another.
    pub fn update(&mut self, members: Vec<Standing>, addresses: &[IpCidr]) {
        self.members = members;
        let before = std::mem::take(&mut self.owners);
        let owner_of = |address: &IpCidr| {
            let (_, owner) = before.iter().find(|(known, _)| known == address)?;
            owner.clone().filter(|name| self.is_active(name))
        };
        self.owners = addresses.iter().map(|address| (*address, owner_of(address))).collect();
        for at in 0..self.owners.len() {
            if self.owners[at].1.is_none() {
                self.owners[at].1 = self.least().map(|(name, _)| name);
            }
        }
        while let (Some((least, few)), Some((most, many))) = (self.least(), self.most()) {
            if many < few + 2 {
                break;
            }
            let moved = self.owners.iter_mut().rev().find(|(_, owner)| owner.as_ref() == Some(&most));
            moved.into_iter().for_each(|(_, owner)| *owner = Some(least.clone()));
        }
    }

    fn is_active(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.active && member.name == name)
    }

    /// Active members with the number of their addresses, in order.
    fn loads(&self) -> impl Iterator<Item = (String, usize)> {
        self.active().map(|name| (name.to_owned(), self.of(name).count()))
    }

    fn least(&self) -> Option<(String, usize)> {
        self.loads().min_by_key(|(_, count)| *count)
    }

    fn most(&self) -> Option<(String, usize)> {
        self.loads().max_by_key(|(_, count)| *count)
    }

    /// Members that have a carrier, in their order.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter(|member| member.active).map(|member| member.name.as_str())
    }

    /// All members, in the order in which they came.
    pub fn members(&self) -> &[Standing] {
        &self.members
    }

    /// The member that hears groups and broadcasts for all.
    pub fn nominated(&self) -> Option<&str> {
        self.active().next()
    }

    /// The addresses that a member serves.
    pub fn of(&self, name: &str) -> impl Iterator<Item = IpCidr> {
        self.owners.iter().filter(move |(_, owner)| owner.as_deref() == Some(name)).map(|(cidr, _)| *cidr)
    }

    /// Each address, and who serves it.
    pub fn owners(&self) -> &[(IpCidr, Option<String>)] {
        &self.owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(states: [bool; 2]) -> Vec<Standing> {
        ["a", "b"].into_iter().zip(states).map(|(n, active)| Standing { name: n.into(), active }).collect()
    }

    fn addresses(count: u8) -> Vec<IpCidr> {
        (1..=count).map(|n| format!("10.0.0.{n}/24").parse().expect("an address")).collect()
    }

    fn owners(spread: &Spread) -> String {
        spread.owners().iter().map(|(_, owner)| owner.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn addresses_are_spread_and_stay_where_they_are() {
        let mut spread = Spread::default();
        spread.update(members([true, true]), &addresses(4));
        assert_eq!(owners(&spread), "abab");
        spread.update(members([true, true]), &addresses(3));
        assert_eq!(owners(&spread), "aba");
    }

    #[test]
    fn addresses_leave_a_failed_member_and_some_come_back() {
        let mut spread = Spread::default();
        spread.update(members([true, true]), &addresses(4));
        spread.update(members([false, true]), &addresses(4));
        assert_eq!(owners(&spread), "bbbb");
        assert_eq!(spread.nominated(), Some("b"));
        spread.update(members([true, true]), &addresses(4));
        assert_eq!(owners(&spread), "bbaa");
    }

    #[test]
    fn one_address_moves_only_when_its_member_fails() {
        let mut spread = Spread::default();
        let mut served = String::new();
        for states in [[true, true], [false, true], [true, true], [true, false], [true, true]] {
            spread.update(members(states), &addresses(1));
            served += &owners(&spread);
        }
        assert_eq!(served, "abbaa");
    }

    #[test]
    fn a_group_without_active_members_serves_nothing() {
        let mut spread = Spread::default();
        spread.update(members([true, true]), &addresses(2));
        spread.update(members([false, false]), &addresses(2));
        assert_eq!((owners(&spread).as_str(), spread.nominated()), ("--", None));
        spread.update(members([false, true]), &addresses(2));
        assert_eq!(owners(&spread), "bb");
    }
}
