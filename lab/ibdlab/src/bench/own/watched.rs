//! The run that is watched, and what it says of itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use fakekernel::{Config, Machine};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// In the file its length, and behind all else the code itself: as text it takes longer to write, under valgrind, than packets do.
    #[serde(serialize_with = "length", deserialize_with = "of_length")]
    pub code: Vec<u8>,
}

fn length<S: Serializer>(code: &[u8], to: S) -> Result<S::Ok, S::Error> {
    code.len().serialize(to)
}

fn of_length<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(vec![0; u32::deserialize(from)? as usize])
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
        Self::parse(&std::fs::read(file)?).with_context(|| file.display().to_string())
    }

    fn parse(written: &[u8]) -> Result<Self> {
        let mut parts = written.splitn(2, |byte| *byte == b'\n');
        let (text, mut codes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut told: Self = serde_json::from_slice(text)?;
        for function in &mut told.functions {
            let code = codes.split_off(..function.code.len()).context("it was cut short")?;
            function.code.copy_from_slice(code);
        }
        ensure!(codes.is_empty(), "more code than functions have");
        Ok(told)
    }

    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, self.written()?).with_context(|| file.display().to_string())
    }

    fn written(&self) -> Result<Vec<u8>> {
        let mut written = serde_json::to_vec(self)?;
        written.push(b'\n');
        self.functions.iter().for_each(|function| written.extend_from_slice(&function.code));
        Ok(written)
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

#[cfg(test)]
mod tests {
    use super::{Function, Told};

    #[test]
    fn what_a_run_told_is_read_with_the_code_of_every_function_and_not_if_it_was_cut() {
        let function = |name: &str, code: &[u8]| Function { name: name.into(), start: 7, code: code.into() };
        let functions = vec![function("f", b"\n\x90"), function("empty", b""), function("g", b"\xc3")];
        let told = Told { functions, calls: [("kmem_alloc".into(), 3)].into(), arrived: 9 };
        let written = told.written().expect("JSON");
        let read = Told::parse(&written).expect("it is whole");
        let codes: Vec<_> = read.functions.iter().map(|function| function.code.as_slice()).collect();
        assert_eq!((codes, read.arrived, read.calls), (vec![&b"\n\x90"[..], b"", b"\xc3"], 9, told.calls));
        assert!(Told::parse(&written[..written.len() - 1]).is_err());
        assert!(Told::parse(&[&written[..], b"\xc3"].concat()).is_err());
    }
}
