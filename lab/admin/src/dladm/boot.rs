//! What a machine does with the links of its files when it boots, and commands that wait for that.

use std::time::Duration;

use fakekernel::Errno;
use lab_gldv3::{PropertyId, PropertyValue};

use super::create_part::Request;
use super::{die, known, linkprop};
use crate::conf::{self, CLASS_PARTITION, CLASS_PHYSICAL, Line, MEDIA_IB};
use crate::part_ioctl;
use crate::session::{Failure, Outcome, Session};
use crate::status;
use crate::system::System;

/// How often, and after what time each, a busy link is tried again.
const PATIENCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Gives the management daemon the physical links of the file, with the properties that are to be set when they come. Before
/// a driver attaches.
pub fn boot_links(system: &dyn System) {
    for line in devices(system) {
        // A name that is none, or taken, keeps a link from nobody: it comes without its properties then.
        let _ = system.create_datalink(device(&line), false, &properties(&line));
    }
}

/// The physical links of the file that can be there.
fn devices(system: &dyn System) -> impl Iterator<Item = Line> {
    let infiniband = |line: &Line| line.class() == CLASS_PHYSICAL && line.int("media") == Some(MEDIA_IB);
    conf::lines(system).into_iter().filter(infiniband)
}

/// What a link is called until the daemon gives it its name.
fn device(line: &Line) -> &str {
    line.text_of("devname").unwrap_or(&line.name)
}

/// Gives the devices that have come the names that the file has for them.
fn name_devices(system: &dyn System) -> Vec<(String, &'static str)> {
    let renamed = devices(system).filter(|line| device(line) != line.name);
    let mut failed = Vec::new();
    for line in renamed {
        let Some(link) = system.links().into_iter().find(|link| link.name == device(&line)) else { continue };
        let mut named = system.rename_datalink(link.id, &line.name);
        for _ in 0..PATIENCE {
            // Its properties may still be on their way to the driver.
            if named != Err(Errno::EBUSY) || system.wait(PAUSE) {
                break;
            }
            named = system.rename_datalink(link.id, &line.name);
        }
        failed.extend(named.err().map(|errno| (line.name, status::of_errno(errno))));
    }
    failed
}

/// Once the drivers have attached: names the devices and makes the partitions of the file. What did not come up, with the reason.
pub fn boot_partitions(system: &dyn System) -> Vec<(String, &'static str)> {
    let mut failed = name_devices(system);
    failed.extend(up_partitions(system, None));
    failed
}

pub(super) fn up_partitions(system: &dyn System, only: Option<&str>) -> Vec<(String, &'static str)> {
    let lines = conf::lines(system).into_iter().filter(|line| line.class() == CLASS_PARTITION);
    let wanted = lines.filter(|line| only.is_none_or(|name| name == line.name));
    let missing: Vec<Line> = wanted
        .filter(|line| known::find(system, &line.name).is_ok_and(|known| known.active.is_none()))
        .collect();
    let failed = missing.iter().filter_map(|line| up(system, line).err().map(|why| (line.name.clone(), why)));
    failed.collect()
}

/// With force, so that neither a late subnet manager nor a late P_Key loses the link.
fn up(system: &dyn System, line: &Line) -> Result<(), &'static str> {
    let over = line.text_of("linkover").ok_or(status::BAD_ARGUMENT)?;
    let pkey = line.int("pkey").and_then(|pkey| u16::try_from(pkey).ok()).ok_or(status::INVALID_PKEY)?;
    let request = Request { over, name: &line.name, pkey, force: true, persistent: false, properties: &[] };
    if request.pkey <= 0x8000 {
        return Err(status::INVALID_PKEY);
    }
    let port = known::find(system, request.over)?.active.ok_or(status::NOT_FOUND)?;
    let id = system.create_datalink(request.name, true, &properties(line)).map_err(status::of_errno)?;
    part_ioctl::create(system, (port.id, port.instance), id, request.pkey, request.force)
        .inspect_err(|_| system.destroy_datalink(id))
}

/// The properties of a line that can be given to a driver, in the order in which illumos sets them (`dladm_walk_linkprop`): those of
/// its table as they stand there, so that an MTU finds the mode that it is for, then private ones as the file has them.
fn properties(line: &Line) -> Vec<(PropertyId, PropertyValue)> {
    let mut properties: Vec<(&str, &str)> = line.properties().collect();
    properties.sort_by_key(|(name, _)| linkprop::place(name));
    properties.into_iter().filter_map(|(name, text)| linkprop::encode(name, text)).collect()
}

/// `-R`: the command is written where the next boot of that root finds it.
pub(super) fn postpone(session: &Session<'_>, subcommand: &str, arguments: &[String], root: &str) -> Outcome {
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-R" | "--root-dir" => drop(words.next()),
            word if word.starts_with("-R") || word.starts_with("--root-dir=") => {}
            word => rest.push(word.to_owned()),
        }
    }
    let line = format!("/sbin/dladm {subcommand} {} # added by dladm(1M)\n", rest.join(" "));
    let name = if session.system.read_file(&format!("{root}/etc/dladm/datalink.conf")).is_some() {
        "upgrade_datalink"
    } else {
        "upgrade"
    };
    let file = format!("{root}/var/svc/profile/{name}");
    let refused = |_| -> Failure { die(format!("{} on {root}", status::NOT_SUPPORTED)) };
    session.system.change_file(&file, &mut |text| text + &line).map_err(refused)
}
