//! What OpenSM reads: its partitions and its options.

use std::fmt::Write as _;

use sm::partition::{
    GroupParams, PermanentGroup, Ports, SCOPE_LINK_LOCAL, SIGNATURE_IPV4, SIGNATURE_IPV6, broadcast_mgid,
};
use sm::{Gid, Membership, Partition};

use crate::Error;

/// What OpenSM tells ports about the time a packet may take, as an exponent of 4.096 us. ibsim forgets it and shows 31.
pub const SUBNET_TIMEOUT: u8 = 18;

/// The options that differ from OpenSM's defaults; `directory` takes its dumps.
pub(crate) fn options(directory: &str, partitions: &[Partition], lmc: u8) -> String {
    let mut text =
        format!("sa_db_dump TRUE\ndump_files_dir {directory}\nsubnet_timeout {SUBNET_TIMEOUT}\nlmc {lmc}\n");
    let mut groups = partitions.iter().flat_map(|partition| &partition.groups);
    // Without it OpenSM takes 0 for the SL of every group.
    if groups.any(|group| group.params.sl.get() != 0) {
        text.push_str("qos TRUE\n");
    }
    text
}

/// `partitions.conf` for these partitions. Without one for the default P_Key the ports are its limited members, and OpenSM's
/// own a full one, as everywhere.
///
/// # Errors
/// [`Error::Partition`] for what the file cannot say: two partitions of one P_Key, or groups of one partition that differ in
/// MTU, rate or another parameter.
pub fn partitions_conf(partitions: &[Partition]) -> Result<String, Error> {
    let mut text = String::new();
    for (n, partition) in partitions.iter().enumerate() {
        // With `allow_both_pkeys` it refuses joins of ports that have the full P_Key alone.
        if partition.members.iter().any(|(_, membership)| *membership == Membership::Both) {
            let why = "OpenSM is not asked for ports with both P_Keys";
            return Err(Error::Partition(partition.name.clone(), why));
        }
        let twice = partitions[..n].iter().any(|other| other.p_key.base() == partition.p_key.base());
        if twice {
            return Err(Error::Partition(partition.name.clone(), "its P_Key has been given already"));
        }
        rule(&mut text, n, partition)?;
    }
    if !partitions.iter().any(|partition| partition.p_key.base() == DEFAULT) {
        rule(&mut text, partitions.len(), &Partition::default_closed())?;
    }
    Ok(text)
}

const DEFAULT: u16 = sm::PKey::DEFAULT_LIMITED.base();

fn rule(text: &mut String, n: usize, partition: &Partition) -> Result<(), Error> {
    let base = partition.p_key.base();
    let name = if base == DEFAULT { "Default".to_owned() } else { format!("p{n}") };
    let broadcast = broadcast_mgid(partition.p_key, SCOPE_LINK_LOCAL);
    let ipoib = partition.groups.iter().any(|group| group.mgid == broadcast);
    let _ = write!(text, "{name}={base:#06x}");
    if partition.index0 {
        text.push_str(",indx0");
    }
    if ipoib {
        text.push_str(",ipoib");
    }
    if let Some(params) = common_params(partition)? {
        flags(text, params);
    }
    text.push_str(" : ");
    let members = partition.members.iter().map(|(ports, membership)| member(*ports, *membership));
    text.push_str(&members.collect::<Vec<_>>().join(", "));
    let others = partition.groups.iter().filter(|group| group.mgid != broadcast);
    // OpenSM's `ipoib` makes the group of the link-local scope, and its groups take all from their partition but the traffic class.
    for PermanentGroup { mgid, params } in others {
        let mgid = without_p_key(*mgid);
        let _ = write!(text, "\nmgid={mgid},scope={}", mgid.scope());
        if params.t_class != 0 {
            let _ = write!(text, ",TClass={}", params.t_class);
        }
    }
    text.push_str(";\n");
    Ok(())
}

/// OpenSM fills the P_Key in. It refuses one with the membership bit, which the group's own has.
fn without_p_key(mgid: Gid) -> Gid {
    match mgid.signature() {
        SIGNATURE_IPV4 | SIGNATURE_IPV6 => Gid { prefix: mgid.prefix & !0xffff_0000, ..mgid },
        _ => mgid,
    }
}

/// The file has one set of parameters for all groups of a partition.
fn common_params(partition: &Partition) -> Result<Option<GroupParams>, Error> {
    let Some(first) = partition.groups.first() else { return Ok(None) };
    if first.params.hop_limit.is_some() {
        let why = "OpenSM gives a group the hop limit of its scope and no other";
        return Err(Error::Partition(partition.name.clone(), why));
    }
    if partition.groups.iter().any(|group| group.params != first.params) {
        let why = "OpenSM's groups of one partition have one set of parameters";
        return Err(Error::Partition(partition.name.clone(), why));
    }
    Ok(Some(first.params))
}

/// Writing to a String cannot fail, here and above.
fn flags(text: &mut String, params: GroupParams) {
    let usual = GroupParams::default();
    let _ = write!(text, ",rate={},mtu={}", params.rate.0, params.mtu.0);
    if params.sl != usual.sl {
        let _ = write!(text, ",sl={}", params.sl.get());
    }
    if params.q_key != usual.q_key {
        let _ = write!(text, ",Q_Key={:#x}", params.q_key.0);
    }
    if params.t_class != usual.t_class {
        let _ = write!(text, ",TClass={}", params.t_class);
    }
    if params.flow_label != usual.flow_label {
        let _ = write!(text, ",FlowLabel={}", params.flow_label);
    }
}

fn member(ports: Ports, membership: Membership) -> String {
    let who = match ports {
        Ports::All => "ALL".to_owned(),
        Ports::AllChannelAdapters => "ALL_CAS".to_owned(),
        Ports::AllSwitches => "ALL_SWITCHES".to_owned(),
        Ports::Own => "SELF".to_owned(),
        Ports::One(guid) => format!("{:#x}", guid.0),
    };
    let how = match membership {
        Membership::Full => "full",
        Membership::Limited => "limited",
        Membership::Both => "both",
    };
    format!("{who}={how}")
}

#[cfg(test)]
mod tests {
    use sm::{Guid, MtuCode, PKey};

    use super::*;

    #[test]
    fn partitions_are_written_as_opensm_reads_them() {
        let site_local =
            PermanentGroup { mgid: broadcast_mgid(PKey::DEFAULT_FULL, 5), params: GroupParams::default() };
        let text = partitions_conf(&[
            Partition::default_open().with_group(site_local),
            Partition { index0: true, ..Partition::new("storage", PKey(0x8001)) }
                .with_members(Ports::One(Guid(0xa)), Membership::Full)
                .with_members(Ports::AllChannelAdapters, Membership::Limited)
                .with_ipoib(GroupParams { mtu: MtuCode(5), ..GroupParams::default() }),
        ]);
        assert_eq!(
            text.unwrap(),
            "Default=0x7fff,ipoib,rate=3,mtu=4 : ALL=full\nmgid=ff15:401b::ffff:ffff,scope=5;\n\
             p1=0x0001,indx0,ipoib,rate=3,mtu=5 : 0xa=full, ALL_CAS=limited;\n"
        );
    }

    #[test]
    fn a_broadcast_group_of_a_wider_scope_is_written_with_it() {
        let params = GroupParams { sl: sm::Sl::truncating(3), t_class: 7, ..GroupParams::default() };
        let wide = Partition::new("wide", PKey(0x8001)).with_ipoib_in(5, params);
        let text = partitions_conf(std::slice::from_ref(&wide)).unwrap();
        let expected =
            "p0=0x0001,rate=3,mtu=4,sl=3,TClass=7 : \nmgid=ff15:401b::ffff:ffff,scope=5,TClass=7;\n";
        assert!(text.starts_with(expected), "{text}");
        let params = GroupParams { hop_limit: Some(4), ..params };
        assert!(
            partitions_conf(&[Partition { groups: Vec::new(), ..wide }.with_ipoib_in(5, params)]).is_err()
        );
    }

    #[test]
    fn the_default_partition_is_closed_where_nobody_speaks_of_it() {
        assert_eq!(partitions_conf(&[]).unwrap(), "Default=0x7fff : ALL=limited, SELF=full;\n");
    }

    #[test]
    fn what_the_file_cannot_say_is_refused() {
        let twice = [Partition::new("a", PKey(1)), Partition::new("b", PKey(0x8001))];
        assert_eq!(
            partitions_conf(&twice).unwrap_err().to_string(),
            "partition b: its P_Key has been given already"
        );
        let other = GroupParams { mtu: MtuCode(3), ..GroupParams::default() };
        let mgid = Gid { prefix: 0xff15_0000_0000_0000, guid: 1 };
        let mixed = Partition::default_open().with_group(PermanentGroup { mgid, params: other });
        assert!(partitions_conf(&[mixed]).is_err());
    }
}
