//! Every instruction that the process runs for a packet that is sent: of `mac`, the driver, the kernel and the adapter, the lab's own. The
//! bare loop is sent through the same `mac`, kernel and adapter, so what it takes is what no driver can save.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{Drive, Kind, Run, WARM_UP};
use crate::bench::{Bench, Driver};

/// What the bare loop is called in the table.
pub const BARE: &str = "bare";

/// What was counted, per packet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WholePath {
    pub what: String,
    /// Or [`BARE`].
    pub driver: String,
    /// Instructions of the process.
    pub instructions: f64,
    /// Those of them that are in the text of the driver and its plugin, or of the bare loop.
    pub own: f64,
}

pub const PATH_HEAD: &str = "driver  whole path of a packet           instructions  of them own";

impl WholePath {
    /// As a line below [`PATH_HEAD`].
    pub fn line(&self) -> String {
        format!("{:<6}  {:<32} {:>12.1} {:>12.1}", self.driver, self.what, self.instructions, self.own)
    }
}

/// Counts one kind of packet, over `counted` of them, that is sent by a driver, or by the bare loop beside our driver. All messages are made before the first is
/// sent, in the run with few packets as well, and what is left of them is not freed: so the difference of the two runs is sending alone.
///
/// # Errors
///
/// What valgrind says when it cannot run the lab, or that packets were lost.
pub fn whole_path(
    bench: &Bench,
    program: &Path,
    driver: &Driver,
    bare: bool,
    kind: &Kind,
    counted: u64,
) -> Result<WholePath> {
    let directory = tempfile::tempdir()?;
    let run = |packets| {
        Drive { driver, kind, packets, made: WARM_UP + counted, bare }.run(bench, program, directory.path())
    };
    let (few, more) = (run(WARM_UP)?, run(WARM_UP + counted)?);
    let packets = more.arrived - few.arrived;
    ensure!(packets == counted, "{}: {packets} of {counted} packets arrived", kind.what);
    let per = |count: u64| count as f64 / counted as f64;
    let own = |run: &Run| run.total(|count| count.instructions);
    Ok(WholePath {
        what: kind.what.into(),
        driver: if bare { BARE.into() } else { driver.name.clone() },
        instructions: per(more.process - few.process),
        own: per(own(&more) - own(&few)),
    })
}
