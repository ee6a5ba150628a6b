//! OpenSM's dump of its administration's database (`opensm-sa.dump`), as far as it is about multicast groups.

use sm::{Gid, Guid, Lid};

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its address.
    pub mgid: Gid,
    /// Its multicast LID.
    pub mlid: Lid,
    /// Ports that are in it, in whatever way.
    pub members: Vec<Guid>,
}

/// The groups of a dump; `None` if it is not a whole one. Lines about other things are passed over.
pub fn parse(text: &str) -> Option<Vec<Group>> {
    if !text.ends_with('\n') {
        return None;
    }
    let mut groups: Vec<Group> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("MC Group ") {
            let mlid = field(line, "mlid=")?.strip_prefix("0x")?;
            let mlid = Lid(u16::from_str_radix(mlid, 16).ok()?);
            groups.push(Group { mgid: gid(field(line, " mgid=")?)?, mlid, members: Vec::new() });
        } else if line.starts_with("mcm_port: ") {
            let port = gid(field(line, "port_gid=")?)?;
            groups.last_mut()?.members.push(Guid(port.guid));
        }
    }
    Some(groups)
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name)?.1.split_whitespace().next()
}

/// `0x<prefix>:0x<guid>`.
fn gid(text: &str) -> Option<Gid> {
    let (prefix, guid) = text.split_once(':')?;
    let half = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(Gid { prefix: half(prefix)?, guid: half(guid)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "MC Group 0xc001 : mgid=0xff12401bffff0000:0x0000000000000001 port_gid=0xfe80000000000000:0xa mlid=0xc001 proxy_join=0x0\n\
        \nmcm_port: port_gid=0xfe80000000000000:0x000000000000000a scope_state=0x21 proxy_join=0x0\n\
        mcm_port: port_gid=0xfe80000000000000:0x000000000000000b scope_state=0x21 proxy_join=0x0\n\
        \nMC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff port_gid=0x0:0x0 mlid=0xc000 proxy_join=0x0\n";

    #[test]
    fn groups_and_their_members_are_read() {
        let groups = parse(TEXT).unwrap();
        let mgid = |guid| Gid { prefix: 0xff12_401b_ffff_0000, guid };
        let first = Group { mgid: mgid(1), mlid: Lid(0xc001), members: vec![Guid(0xa), Guid(0xb)] };
        let second = Group { mgid: mgid(0xffff_ffff), mlid: Lid(0xc000), members: vec![] };
        assert_eq!(groups, [first, second]);
    }

    #[test]
    fn a_dump_that_is_being_written_is_no_dump() {
        assert_eq!(parse(""), None);
        assert_eq!(parse(&TEXT[..40]), None);
        assert_eq!(parse("MC Group 0xc001 : mgid=0xff12\n"), None);
    }
}
