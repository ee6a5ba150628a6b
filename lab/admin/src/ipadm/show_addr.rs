//! `ipadm show-addr`.

use std::net::IpAddr;

use super::conf::{self, Line};
use super::die;
use super::shown::Shown;
use crate::ofmt::{Cell, Field, Table};
use crate::session::{Outcome, Session};
use crate::system::{Address, AddressKind, AddressState};

const FIELDS: [Field; 6] =
    [("ADDROBJ", 18), ("TYPE", 9), ("STATE", 13), ("CURRENT", 8), ("PERSISTENT", 11), ("ADDR", 46)];
const NAMES: [&str; 4] = ["ADDROBJ", "TYPE", "STATE", "ADDR"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let shown = Shown::read(arguments, line)?;
    let mut rows = rows(session);
    if let Some(name) = &shown.name {
        let wanted = |row: &Row| match name.strip_suffix('/') {
            Some(interface) => row.object.split('/').next() == Some(interface),
            None => row.object == *name,
        };
        rows.retain(wanted);
        if rows.is_empty() {
            return Err(die("Address object not found"));
        }
    }
    let mut table = Table::new(session, &shown.choice(&FIELDS, &NAMES))?;
    for row in rows {
        table.row(session, &row.cells());
    }
    Ok(())
}

struct Row {
    object: String,
    kind: &'static str,
    state: &'static str,
    persistent: bool,
    address: Option<(IpAddr, u8)>,
    ipv6: bool,
}

impl Row {
    fn new(address: &Address, lines: &[Line]) -> Self {
        let ipv6 = match &address.kind {
            AddressKind::Addrconf => true,
            AddressKind::Dhcp => false,
            AddressKind::Static(address, _) => address.is_ipv6(),
        };
        Self {
            object: address.object.clone(),
            kind: kind(&address.kind),
            state: match address.state {
                AddressState::Ok => "ok",
                AddressState::Down => "down",
                AddressState::Tentative => "tentative",
                AddressState::Duplicate => "duplicate",
                AddressState::Inaccessible => "inaccessible",
            },
            persistent: lines.iter().any(|line| line.object() == Some(&address.object)),
            address: address.address,
            ipv6,
        }
    }

    fn cells(self) -> [Cell; 6] {
        let current = match self.state {
            "disabled" => "-----",
            "down" | "duplicate" if self.persistent => "--p--",
            "down" | "duplicate" => "-----",
            _ if self.persistent => "U-p--",
            _ => "U----",
        };
        let unknown = if self.ipv6 { "::" } else { "?" };
        let address =
            self.address.map_or_else(|| unknown.to_owned(), |(ip, length)| format!("{ip}/{length}"));
        let persistent = if self.persistent { "U--" } else { "---" };
        [
            self.object,
            self.kind.to_owned(),
            self.state.to_owned(),
            current.to_owned(),
            persistent.to_owned(),
            address,
        ]
        .map(Some)
    }
}

fn kind(kind: &AddressKind) -> &'static str {
    match kind {
        AddressKind::Static(..) => "static",
        AddressKind::Addrconf => "addrconf",
        AddressKind::Dhcp => "dhcp",
    }
}

/// Every IPv4 address, by interface, then every IPv6 address; then those in the file alone.
fn rows(session: &Session<'_>) -> Vec<Row> {
    let (lines, interfaces) = (conf::lines(session.system), session.system.interfaces());
    let all = interfaces.iter().flat_map(|interface| &interface.addresses);
    let mut rows: Vec<Row> = all.map(|address| Row::new(address, &lines)).collect();
    let disabled = lines.iter().filter_map(|line| match line {
        Line::Address { object, kind, .. } if !rows.iter().any(|row| row.object == *object) => {
            Some((object, kind))
        }
        _ => None,
    });
    let disabled: Vec<Row> = disabled
        .map(|(object, of)| {
            let address = if let AddressKind::Static(ip, length) = of { Some((*ip, *length)) } else { None };
            let ipv6 = address.map_or(*of == AddressKind::Addrconf, |(ip, _)| ip.is_ipv6());
            Row { object: object.clone(), kind: kind(of), state: "disabled", persistent: true, address, ipv6 }
        })
        .collect();
    rows.extend(disabled);
    rows.sort_by_key(|row| row.ipv6);
    rows
}
