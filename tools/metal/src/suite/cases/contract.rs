//! What mac asks of the driver, and the driver of mac, one act at a time, against a record to which the lab is held as well.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::link::open;
use crate::machine::options::Driver;
use crate::suite::bench::{Bench, CASE};
use crate::suite::report::Findings;

/// See the file's first lines.
const RECORD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/kernel-calls.toml"));

#[derive(Deserialize)]
struct Record {
    act: Vec<Expected>,
}

#[derive(Debug, Deserialize)]
struct Expected {
    #[serde(flatten)]
    act: Act,
    /// What other macs ask instead of `calls`, a list for each.
    #[serde(default)]
    or: Vec<Vec<String>>,
}

/// How what was seen compares.
#[derive(Debug, PartialEq, Eq)]
enum Match {
    Same,
    /// As another mac asks.
    Other,
    No,
}

impl Expected {
    fn compare(&self, seen: Option<&Act>) -> Match {
        match seen {
            Some(act) if *act == self.act => Match::Same,
            Some(act) if self.or.contains(&act.calls) && act.told == self.act.told => Match::Other,
            _ => Match::No,
        }
    }
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Act {
    name: String,
    /// Of mac's to the driver, in order.
    calls: Vec<String>,
    /// Of the driver's to mac, in order; how they fall between the others is the scheduler's business.
    told: Vec<String>,
}

/// A link that nobody else has.
const LINK: u32 = 140;
const GROUP: &str = "00ffffffff10401b00000000000000000f010203";

/// Does each act and compares the calls.
pub fn contract(bench: &mut Bench) -> Result<Findings> {
    let part = format!("{LINK} 1 0 0xffff");
    act(bench, "create", "0", &format!("part-create {part}"))?;
    if bench.driver == Driver::C {
        bench.mark("datagrams")?;
        bench.must("0", &format!("prop-set {LINK} linkmode 0"))?;
    }
    bench.mark("open")?;
    let device = format!("part{LINK}");
    let fd = open(bench, &device)?;
    // The administrator is asked, and answers.
    bench.pause(500)?;
    act(bench, "bind", CASE, &format!("dl-bind {fd} 0x88b5"))?;
    for (name, words) in [
        ("promiscuous", format!("dl-promisc {fd} phys on")),
        ("no longer promiscuous", format!("dl-promisc {fd} phys off")),
        ("enable group", format!("dl-group {fd} {GROUP} on")),
        ("disable group", format!("dl-group {fd} {GROUP} off")),
    ] {
        act(bench, name, CASE, &words)?;
    }
    act(bench, "set property", "0", &format!("prop-set {LINK} _ibd_debug 0"))?;
    act(bench, "get property", "0", &format!("prop-get {LINK} _ibd_debug"))?;
    act(bench, "close", CASE, &format!("close {fd}"))?;
    act(bench, "delete", "0", &format!("part-delete {part}"))?;
    bench.mark("end")?;
    compare(bench)
}

fn act(bench: &mut Bench, name: &str, process: &str, words: &str) -> Result<()> {
    bench.mark(name)?;
    let done = bench.ask(process, words)?;
    // The other driver has not all of our properties.
    let refused = done.err().filter(|_| bench.driver == Driver::Rust);
    ensure!(refused.is_none(), "{process} {words}: {refused:?}");
    Ok(())
}

fn compare(bench: &Bench) -> Result<Findings> {
    let tracer = bench.tracer.as_ref().context("nobody wrote the calls down")?;
    let seen = acts(&tracer.lines()?);
    let record: Record = toml::from_str(RECORD).context("the record")?;
    let (mut differences, mut others) = (String::new(), String::new());
    for expected in &record.act {
        let name = &expected.act.name;
        let act = seen.iter().find(|act| act.name == *name);
        // Writing to a String cannot fail.
        let _ = match expected.compare(act) {
            Match::Same => Ok(()),
            Match::Other => write!(others, "\n{name}: as another mac asks, of which the record knows"),
            Match::No => writeln!(differences, "expected {expected:#?}\nseen {act:#?}"),
        };
    }
    let differ = differences.lines().filter(|line| line.starts_with("expected ")).count();
    if bench.driver == Driver::C {
        // The record is of our driver; what mac asks of the other one, and that of mac, is kept all the same.
        let text = format!("{} of {} acts as in the record", record.act.len() - differ, record.act.len());
        return Ok(Findings::new(text).fact("different", differences));
    }
    ensure!(differ == 0, "{differences}");
    let calls: usize = seen.iter().map(|act| act.calls.len() + act.told.len()).sum();
    let text = format!("{} acts, {calls} calls as in the record{others}", record.act.len());
    Ok(Findings::new(text).fact("calls", calls))
}

/// What was written between two marks; addresses of links, which differ from run to run, are named so.
///
/// A line that comes twice in a row is one call: when an interrupt comes while gdb steps over its own breakpoint, the kernel comes back
/// to the same instruction, and stops there again. That the driver tells nothing twice is seen in the lab.
fn acts(lines: &[String]) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    let mut before = "";
    for line in lines.iter().filter(|line| std::mem::replace(&mut before, line) != line.as_str()) {
        if let Some(name) = line.strip_prefix("== ") {
            acts.push(Act { name: name.to_owned(), calls: Vec::new(), told: Vec::new() });
            continue;
        }
        let Some(act) = acts.last_mut() else { continue };
        match line.split_once(' ').filter(|(whose, _)| !whose.contains('(')) {
            Some((_, call)) => act.calls.push(call.to_owned()),
            None if line.starts_with("mac_unicst_update") => {
                act.told.push("mac_unicst_update(ADDRESS)".into())
            }
            None => act.told.push(line.clone()),
        }
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_either_side_are_told_apart_and_belong_to_the_act_before() {
        let lines = [
            "mac_register()",
            "== open",
            "link1 mc_start() = 0",
            "mac_unicst_update(00002004fe80)",
            "mac_unicst_update(00002004fe80)",
            "== close",
        ];
        let open = Act {
            name: "open".into(),
            calls: vec!["mc_start() = 0".into()],
            told: vec!["mac_unicst_update(ADDRESS)".into()],
        };
        let close = Act { name: "close".into(), calls: Vec::new(), told: Vec::new() };
        assert_eq!(acts(&lines.map(str::to_owned)), [open, close]);
    }

    #[test]
    fn what_another_mac_asks_is_known_as_that_and_nothing_else_is() -> Result<()> {
        let text = "[[act]]\nname = 'create'\ncalls = ['one']\nor = [['one', 'two'], ['three']]\ntold = ['register']\n";
        let record: Record = toml::from_str(text)?;
        let seen = |calls: &[&str], told: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|call| (*call).to_owned()).collect();
            let act = Act { name: "create".into(), calls: owned(calls), told: owned(told) };
            record.act[0].compare(Some(&act))
        };
        assert_eq!(seen(&["one"], &["register"]), Match::Same);
        assert_eq!(seen(&["one", "two"], &["register"]), Match::Other);
        assert_eq!(seen(&["three"], &["register"]), Match::Other);
        assert_eq!(seen(&["one", "two"], &[]), Match::No);
        assert_eq!(seen(&["two"], &["register"]), Match::No);
        assert_eq!(record.act[0].compare(None), Match::No);
        Ok(())
    }

    #[test]
    fn the_record_can_be_read() -> Result<()> {
        let record: Record = toml::from_str(RECORD)?;
        ensure!(record.act.iter().any(|expected| expected.act.name == "open"));
        Ok(())
    }
}
