//! What somebody reads who has nothing but the machine's memory.

use anyhow::{Context, Result, ensure};

use super::adapter::{number_of, own_kstat};
use crate::machine::options::Driver;
use crate::suite::bench::Bench;
use crate::suite::report::Findings;

/// Values that the memory has and that statistics say, too: the statistic, the name in it.
const COMPARED: [(&str, &str); 7] = [
    ("datagram", "link_state"),
    ("datagram", "sa_paths"),
    ("port", "times_up"),
    ("port", "qp_made"),
    ("tx_ring_0", "packets"),
    ("tx_ring_0", "bytes"),
    ("rx_ring_0", "packets"),
];

/// gdb finds every link from the symbol `ibd_root`, and behind it what the statistics say.
pub fn dump(bench: &mut Bench) -> Result<Findings> {
    if bench.driver == Driver::C || bench.tracer.is_some() {
        return Ok(Findings::new("not read: the C driver has no such symbol, or gdb writes the calls"));
    }
    bench.debugger.learn(&mut bench.session)?;
    let before = [compared(bench, 0)?, compared(bench, 1)?];
    let links = bench.debugger.links()?;
    let after = [compared(bench, 0)?, compared(bench, 1)?];
    for side in 0..2 {
        let title = format!("link {} ", number_of(bench, side));
        let at = links.iter().position(|line| line.starts_with(&title));
        let at = at.with_context(|| format!("no {title}in\n{}", links.join("\n")))?;
        let of_link = links[at + 1..].iter().take_while(|line| line.starts_with(' '));
        let words: Vec<Vec<&str>> = of_link.map(|line| line.split_whitespace().collect()).collect();
        for (n, (kstat, name)) in COMPARED.into_iter().enumerate() {
            let line = words.iter().find(|words| words[..2] == [kstat, name]);
            let value = line.map_or(Ok(0), |words| words[2].parse::<u64>())?;
            let (least, most) = (before[side][n], after[side][n]);
            ensure!((least..=most).contains(&value), "{kstat} {name}: {value}, of {least} to {most}");
        }
    }
    Ok(Findings::new(format!("{} lines of links, as the statistics have it", links.len()))
        .fact("links", links.join("; ")))
}

fn compared(bench: &mut Bench, side: usize) -> Result<Vec<u64>> {
    let numbers = COMPARED.map(|(kstat, name)| Bench::number(&own_kstat(bench, side, kstat)?, name));
    numbers.into_iter().collect()
}
