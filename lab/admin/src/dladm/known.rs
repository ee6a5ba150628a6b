//! What is known of a link: the management daemon's entry, the mac under it, the line in the file.

use fakekernel::genunix::{KstatId, KstatValue};
use lab_gldv3::LinkSummary;

use crate::conf::{self, CLASS_PARTITION, CLASS_PHYSICAL, Line, MEDIA_IB};
use crate::status;
use crate::system::System;

pub(super) struct Known {
    pub(super) name: String,
    /// Its id, if it is active.
    pub(super) id: Option<u32>,
    pub(super) partition: bool,
    pub(super) physical: bool,
    pub(super) infiniband: bool,
    pub(super) active: Option<LinkSummary>,
    pub(super) line: Option<Line>,
}

/// Every link, those that are active first, by id.
pub(super) fn all(system: &dyn System) -> Vec<Known> {
    let (links, mut lines) = (system.links(), conf::lines(system));
    let mut all = Vec::new();
    for entry in system.datalinks() {
        let line = lines.iter().position(|line| line.name == entry.name).map(|at| lines.remove(at));
        let active = links.iter().find(|link| link.id == entry.id).cloned();
        all.push(Known {
            name: entry.name,
            id: Some(entry.id),
            partition: entry.partition,
            physical: !entry.partition,
            infiniband: true,
            active,
            line,
        });
    }
    all.extend(lines.into_iter().map(|line| Known {
        name: line.name.clone(),
        id: None,
        partition: line.class() == CLASS_PARTITION,
        physical: line.class() == CLASS_PHYSICAL,
        infiniband: line.int("media") == Some(MEDIA_IB),
        active: None,
        line: Some(line),
    }));
    all
}

/// `dladm_name2info`
pub(super) fn find(system: &dyn System, name: &str) -> Result<Known, &'static str> {
    all(system).into_iter().find(|known| known.name == name).ok_or(status::NOT_FOUND)
}

/// The name of an active link.
pub(super) fn name_of(system: &dyn System, id: u32) -> Option<String> {
    system.links().into_iter().find(|link| link.id == id).map(|link| link.name)
}

/// `up`, `down`, `unknown`, from the link's kstat; `?` when there is none.
pub(super) fn state(system: &dyn System, link: &str) -> String {
    let id = KstatId { module: "link".into(), instance: 0, name: link.into() };
    let kstat = system.read_kstat(&id).ok();
    let value = kstat.and_then(|kstat| {
        kstat.values.into_iter().find(|(name, _)| name == "link_state").map(|(_, value)| value)
    });
    match value {
        Some(KstatValue::U32(1)) => "up",
        Some(KstatValue::U32(0)) => "down",
        Some(_) => "unknown",
        None => "?",
    }
    .to_owned()
}

/// `dladm_valid_linkname`
pub(super) fn is_valid_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = &name[name.len() - digits..];
    (1..32).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(letters)
        && digits > 0
        && (digits == 1 || !number.starts_with('0'))
}
