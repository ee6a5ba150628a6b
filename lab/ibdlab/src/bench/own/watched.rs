//! The run that is watched, and what it says of itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fakekernel::{Config, Machine};
use serde::{Deserialize, Serialize};

use super::super::bed::{Bed, Subject};
use super::super::traffic::{Handing, Load, Watched, measure_watched};
use super::super::{Bench, Driver, bare};

/// What a run says when it is over.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Of the driver and its plugin.
    pub functions: Vec<Function>,
    /// Kernel calls of the driver while the packets went, by name.
    pub calls: BTreeMap<String, u64>,
    /// Packets.
    pub arrived: u64,
}

/// A function as it lay in memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    pub start: usize,
    pub code: Vec<u8>,
}

impl Told {
    fn of(subject: &Subject, calls: BTreeMap<String, u64>, arrived: u64) -> Self {
        let modules = subject.host.kernel.modules();
        let functions = modules.iter().flat_map(|module| module.functions()).map(|function| {
            let fakekernel::Function { name, start, code } = function;
            Function { name, start, code }
        });
        Self { functions: functions.collect(), calls, arrived }
    }

    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read(file).with_context(|| file.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| file.display().to_string())
    }

    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, serde_json::to_vec(self)?).with_context(|| file.display().to_string())
    }
}

/// Does nothing but have the last driver carry packets, `made` of which are there before the first is sent, or the bare loop in its place.
///
/// # Errors
///
/// As for [`Bench::run`].
pub fn drive(bench: &Bench, load: Load, handing: Handing, made: u64, bare: bool) -> Result<Told> {
    let driver = bench.peer.as_deref().map_or_else(|| Ok(Driver::ours()), Driver::at)?;
    // Of a clock that shows the work done timers would come now here, now there.
    let machine = Machine::new(Config { real_work: false, ..Config::timed(bench.seed) });
    let (inner, bench) = (machine.clone(), bench.clone());
    let outcome = machine.run(move || -> Result<Told> {
        let bed = Bed::build(&inner, &[driver], &bench.proto, bench.seed, bench.mtu)?;
        let subject = &bed.subjects[0];
        let bare = if bare { Some(bare::load(&bed, subject)?) } else { None };
        let watched = Watched { load, handing, packets: bench.packets, made, bare };
        let measured = measure_watched(&bed, subject, &watched);
        Ok(Told::of(subject, measured.named, measured.arrived))
    });
    outcome.map_err(|halt| anyhow!("{halt}"))?
}
