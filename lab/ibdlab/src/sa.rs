//! `ibdlab sa`: questions to subnet administration over a umad device, and what was answered.
//!
//! A transport may carry 256 bytes of an answer and no more (ibsim's). Then the same is asked in smaller portions, of what is known
//! to be there; what may have been cut even so is said to be.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sm::records::{
    McMemberRecord, NodeRecord, NodeType, PKeyTableRecord, PathRecord, PortInfo, PortInfoRecord, Record,
    mc_member_mask, node_mask, p_key_table_mask, path_mask, port_info_mask,
};
use sm::{Gid, JoinState, Lid, LinkWidth, MtuCode, PortState, RateCode};
use umad::{AskError, Device, SaClient};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The multicast groups.
    Groups,
    /// The members of a group, or of all.
    Members,
    /// The paths from a port to another.
    Paths,
    /// The ports.
    Ports,
    /// The nodes.
    Nodes,
    /// Which P_Keys the ports have.
    Partitions,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Question {
    pub what: What,
    /// `members`: an MGID. `paths`: two ports.
    pub about: Vec<String>,
    /// Who knows it is told who is in a group, and P_Keys.
    pub sm_key: Option<u64>,
}

/// A port that whoever asks knows of, so that it can be asked for alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub name: String,
    pub gid: Gid,
    pub lid: Lid,
}

/// Lines with the same columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
    /// There may be more.
    pub cut: bool,
}

/// The key that the labs' administrators have.
const SM_KEY: u64 = 1;
/// Where LIDs are looked for one by one, if a transport cuts tables: as many as a switch of ibsim's has for groups, and more than an
/// ibsim has ports.
const MLIDS: std::ops::Range<u16> = 0xc000..0xc400;
const LIDS: std::ops::Range<u16> = 1..128;

/// Asks.
///
/// # Errors
///
/// What is wrong with the question, or why there is no answer.
pub fn ask<D: Device>(
    client: &mut SaClient<D>,
    question: &Question,
    known: &[Known],
) -> Result<Answer, String> {
    let about = match (question.what, &question.about[..]) {
        (What::Paths, [from, to]) => vec![resolve(from, known)?, resolve(to, known)?],
        (What::Paths, _) => return Err("from where to where? `sa paths SRC DST`".into()),
        (What::Members, [group]) => {
            let mgid = resolve(group, known)?;
            if mgid.prefix >> 56 != 0xff {
                return Err(format!("`{group}` is no group: its GID begins with ff"));
            }
            vec![mgid]
        }
        (_, []) => Vec::new(),
        (_, [.., last]) => return Err(format!("`{last}`: nothing more to say")),
    };
    let mut asker = Asker { client, known, key: question.sm_key.unwrap_or(SM_KEY), cut: false };
    let (columns, rows) = match question.what {
        What::Groups => asker.groups(),
        What::Members => asker.members(about.first().copied()),
        What::Paths => asker.paths(about[0], about[1]),
        What::Ports => asker.ports(),
        What::Nodes => asker.nodes(),
        What::Partitions => asker.partitions(),
    }
    .map_err(|error| error.to_string())?;
    Ok(Answer { columns, rows, cut: asker.cut })
}

/// The GID of a port by its name, or as it is.
fn resolve(text: &str, known: &[Known]) -> Result<Gid, String> {
    if let Some(port) = known.iter().find(|port| port.name == text || port.name == format!("{text}/1")) {
        return Ok(port.gid);
    }
    let gid = text.parse::<std::net::Ipv6Addr>().map(|gid| Gid::from_bytes(gid.octets()));
    gid.map_err(|_| {
        let names: Vec<&str> = known.iter().map(|port| port.name.as_str()).collect();
        format!("`{text}` is neither a GID nor one of {}", names.join(", "))
    })
}

type Lines = Result<(&'static [&'static str], Vec<Vec<Value>>), AskError>;

struct Asker<'a, D> {
    client: &'a mut SaClient<D>,
    known: &'a [Known],
    key: u64,
    cut: bool,
}

impl<D: Device> Asker<'_, D> {
    /// A table; in portions if it may have been cut, and there are any.
    fn table<R: Record + Clone>(
        &mut self,
        (mask, record): (u64, R),
        portions: impl IntoIterator<Item = (u64, R)>,
    ) -> Result<Vec<R>, AskError> {
        let whole = self.client.table(mask, &record)?;
        if !whole.cut {
            return Ok(whole.records);
        }
        let mut records = Vec::new();
        let mut asked = false;
        for (mask, record) in portions {
            let portion = self.client.table(mask, &record)?;
            self.cut |= portion.cut;
            records.extend(portion.records);
            asked = true;
        }
        if !asked {
            self.cut = true;
            return Ok(whole.records);
        }
        Ok(records)
    }

    /// LIDs that may be in use.
    fn lids(&self) -> BTreeSet<Lid> {
        let known = self.known.iter().map(|port| port.lid).filter(|lid| lid.is_unicast());
        known.chain(LIDS.map(Lid)).collect()
    }

    fn name(&self, gid: Gid) -> Value {
        let found = self.known.iter().find(|port| port.gid == gid);
        found.map_or_else(|| gid.to_string(), |port| port.name.clone()).into()
    }

    fn group_records(&mut self) -> Result<Vec<McMemberRecord>, AskError> {
        // Whoever is not trusted is told of each group once.
        self.client.set_sm_key(0);
        let by_mlid = MLIDS.map(|mlid| {
            (mc_member_mask::MLID, McMemberRecord { mlid: Lid(mlid), ..McMemberRecord::default() })
        });
        let mut groups = self.table((0, McMemberRecord::default()), by_mlid)?;
        groups.sort_by_key(|group| (group.mlid, group.mgid));
        groups.dedup_by_key(|group| group.mgid);
        Ok(groups)
    }

    fn groups(&mut self) -> Lines {
        let row = |group: &McMemberRecord| {
            vec![
                group.mlid.to_string().into(),
                group.mgid.to_string().into(),
                group.p_key.to_string().into(),
                format!("{:#010x}", group.q_key.0).into(),
                json!(MtuCode(group.mtu.value).bytes()),
                gigabits(RateCode(group.rate.value)),
                json!(group.sl.get()),
                json!(group.scope),
            ]
        };
        let rows = self.group_records()?.iter().map(row).collect();
        Ok((&["MLID", "MGID", "PKEY", "QKEY", "MTU", "GBPS", "SL", "SCOPE"], rows))
    }

    fn members(&mut self, group: Option<Gid>) -> Lines {
        let groups = match group {
            Some(mgid) => vec![mgid],
            None => self.group_records()?.iter().map(|group| group.mgid).collect(),
        };
        self.client.set_sm_key(self.key);
        let mut rows = Vec::new();
        for mgid in groups {
            let of_port = |port_gid| {
                let record = McMemberRecord { mgid, port_gid, ..McMemberRecord::default() };
                (mc_member_mask::MGID | mc_member_mask::PORT_GID, record)
            };
            let by_port: Vec<_> = self.known.iter().map(|port| of_port(port.gid)).collect();
            let whole = (mc_member_mask::MGID, McMemberRecord { mgid, ..McMemberRecord::default() });
            let members = self.table(whole, by_port)?;
            for member in members.iter().filter(|member| !member.join_state.is_empty()) {
                rows.push(vec![
                    mgid.to_string().into(),
                    self.name(member.port_gid),
                    joined(member.join_state),
                ]);
            }
        }
        Ok((&["MGID", "MEMBER", "JOINED"], rows))
    }

    fn paths(&mut self, sgid: Gid, dgid: Gid) -> Lines {
        self.client.set_sm_key(0);
        let wanted = PathRecord { sgid, dgid, reversible: true, numb_path: 0x7f, ..PathRecord::default() };
        let mask = path_mask::SGID | path_mask::DGID | path_mask::REVERSIBLE | path_mask::NUMB_PATH;
        let one = (mask, PathRecord { numb_path: 1, ..wanted });
        let row = |path: &PathRecord| {
            vec![
                path.slid.to_string().into(),
                path.dlid.to_string().into(),
                json!(path.sl.get()),
                path.p_key.to_string().into(),
                json!(MtuCode(path.mtu.value).bytes()),
                gigabits(RateCode(path.rate.value)),
                json!(sm::ib_time(path.lifetime.value).0 / 1_000_000),
            ]
        };
        // With one path for a portion it is no longer known whether there are more.
        let before = self.cut;
        let whole = self.client.table(mask, &wanted)?;
        let records = if whole.cut { self.table(one, [])? } else { whole.records };
        self.cut = before | whole.cut;
        Ok((&["SLID", "DLID", "SL", "PKEY", "MTU", "GBPS", "LIFETIME_MS"], records.iter().map(row).collect()))
    }

    fn port_records(&mut self) -> Result<Vec<PortInfoRecord>, AskError> {
        self.client.set_sm_key(0);
        let whole = self.client.table(0, &PortInfoRecord::default())?;
        if !whole.cut {
            return Ok(whole.records);
        }
        let mut records = Vec::new();
        for lid in self.lids() {
            let of_lid = PortInfoRecord { endport_lid: lid, ..PortInfoRecord::default() };
            let portion = self.client.table(port_info_mask::LID, &of_lid)?;
            if !portion.cut {
                records.extend(portion.records);
                continue;
            }
            // A switch has a record for each of its ports, from 0 on.
            for port_num in 0..=u8::MAX {
                let of_port = PortInfoRecord { port_num, ..of_lid };
                let one = self.client.table(port_info_mask::LID | port_info_mask::PORT_NUM, &of_port)?;
                self.cut |= one.cut;
                if one.records.is_empty() && port_num > 0 {
                    break;
                }
                records.extend(one.records);
            }
        }
        Ok(records)
    }

    fn ports(&mut self) -> Lines {
        let mut ports = self.port_records()?;
        ports.sort_by_key(|port| (port.endport_lid, port.port_num));
        let row = |port: &PortInfoRecord| {
            let named = self.known.iter().find(|known| known.lid == port.endport_lid);
            vec![
                port.endport_lid.to_string().into(),
                json!(port.port_num),
                named.map_or_else(|| "-".into(), |known| Value::from(known.name.clone())),
                state(&port.info).into(),
                json!(port.info.neighbor_mtu.bytes()),
                LinkWidth::from_wire(port.info.link_width_active)
                    .and_then(|width| {
                        RateCode::of_link(width, port.info.link_speed_active, port.info.link_speed_ext_active)
                    })
                    .map_or(Value::Null, gigabits),
                format!("{:#010x}", port.info.capability_mask).into(),
            ]
        };
        Ok((
            &["LID", "PORT", "NAME", "STATE", "MTU", "GBPS", "CAPABILITIES"],
            ports.iter().map(row).collect(),
        ))
    }

    fn node_records(&mut self) -> Result<Vec<NodeRecord>, AskError> {
        self.client.set_sm_key(0);
        let Some(nobody) = NodeRecord::parse(&[0; NodeRecord::LEN]) else { return Ok(Vec::new()) };
        let by_lid = self.lids().into_iter().map(|lid| (node_mask::LID, NodeRecord { lid, ..nobody }));
        let mut nodes = self.table((0, nobody), by_lid)?;
        nodes.sort_by_key(|node| node.lid);
        Ok(nodes)
    }

    fn nodes(&mut self) -> Lines {
        let nodes = self.node_records()?;
        let row = |node: &NodeRecord| {
            let description: String = node.description.iter().map(|c| char::from(*c)).collect();
            vec![
                node.lid.to_string().into(),
                match node.node_type {
                    NodeType::ChannelAdapter => "adapter".into(),
                    NodeType::Switch => "switch".into(),
                    other => format!("{other:?}").to_lowercase().into(),
                },
                json!(node.num_ports),
                node.node_guid.to_string().into(),
                node.port_guid.to_string().into(),
                description.trim_end_matches('\0').into(),
            ]
        };
        Ok((
            &["LID", "TYPE", "PORTS", "NODEGUID", "PORTGUID", "DESCRIPTION"],
            nodes.iter().map(row).collect(),
        ))
    }

    fn partitions(&mut self) -> Lines {
        let adapters =
            self.node_records()?.into_iter().filter(|node| node.node_type == NodeType::ChannelAdapter);
        let lids: BTreeSet<Lid> = adapters.map(|node| node.lid).collect();
        self.client.set_sm_key(self.key);
        let mut rows = Vec::new();
        for lid in lids {
            let record = PKeyTableRecord { lid, ..PKeyTableRecord::default() };
            let mask = p_key_table_mask::LID | p_key_table_mask::BLOCK;
            let table = self.client.table(mask, &record)?;
            self.cut |= table.cut;
            for port in table.records {
                let keys = port.p_keys.iter().filter(|key| key.0 != 0).map(|key| key.to_string());
                let named = self.known.iter().find(|known| known.lid == lid);
                rows.push(vec![
                    lid.to_string().into(),
                    json!(port.port_num),
                    named.map_or_else(|| "-".into(), |known| Value::from(known.name.clone())),
                    Value::from(keys.collect::<Vec<_>>()),
                ]);
            }
        }
        Ok((&["LID", "PORT", "NAME", "PKEYS"], rows))
    }
}

fn gigabits(rate: RateCode) -> Value {
    rate.tenths_of_gbps().map_or(Value::Null, |tenths| json!(f64::from(tenths) / 10.0))
}

fn joined(state: JoinState) -> Value {
    let names = [
        (JoinState::FULL, "full"),
        (JoinState::NON, "non"),
        (JoinState::SEND_ONLY_NON, "send-only"),
        (JoinState::SEND_ONLY_FULL, "send-only-full"),
    ];
    let has = names.iter().filter(|(one, _)| state.contains(*one)).map(|(_, name)| *name);
    has.collect::<Vec<_>>().join(",").into()
}

fn state(info: &PortInfo) -> String {
    let known = PortState::from_wire(info.port_state);
    known.map_or_else(|| info.port_state.to_string(), |state| format!("{state:?}").to_lowercase())
}

impl Answer {
    /// Lines for a person, with a heading.
    pub fn text(&self) -> String {
        let heading = self.columns.iter().map(|column| (*column).to_owned()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect());
        let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        lines.iter().fold(String::new(), |mut text, line| {
            let mut row = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                // To a string, which takes everything.
                let _ = write!(row, "{cell:<width$}  ");
            }
            text += row.trim_end();
            text.push('\n');
            text
        })
    }

    /// An object: the rows, and whether they may not be all.
    pub fn json(&self) -> String {
        let row = |row: &Vec<Value>| {
            let named = self.columns.iter().map(|column| column.to_lowercase()).zip(row.iter().cloned());
            Value::Object(named.collect())
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        format!("{:#}\n", json!({ "possibly_cut": self.cut, "rows": rows }))
    }

    /// What a person has to be told besides.
    pub fn warning(&self) -> Option<&'static str> {
        const CUT: &str = "ibdlab: an answer filled a MAD and may have been cut: there may be more\n";
        self.cut.then_some(CUT)
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Array(several) => several.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
