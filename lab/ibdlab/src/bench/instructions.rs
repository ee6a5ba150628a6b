//! Instructions of the driver's own code per packet, counted by valgrind: exact, and the same on a busy machine.
//!
//! The program runs itself under callgrind, once with few packets and once with more. Module text lies in no file that valgrind knows, so
//! its share is what is counted outside of every object, and the difference of the two runs has no beginning and no end in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::traffic::Way;
use super::{Bench, Driver};

/// Packets of the two runs.
const FEW: u64 = 1024;
const MORE: u64 = 5120;
/// How callgrind calls code that it finds in no object.
const NO_OBJECT: &str = "???";

/// Why nothing was counted, or `None` if it can be.
pub fn missing() -> Option<String> {
    let known =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match known {
        Ok(status) if status.success() => None,
        _ => Some("not counted: valgrind is not installed".into()),
    }
}

/// Instructions in module text per packet of 64 bytes.
///
/// # Errors
///
/// What valgrind says when it cannot run the lab.
pub fn per_packet(bench: &Bench, driver: &Driver, way: Way) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let count = |packets| in_modules(bench, driver, way, packets, directory.path());
    let (few, more) = (count(FEW)?, count(MORE)?);
    Ok(more.saturating_sub(few) as f64 / (MORE - FEW) as f64)
}

fn in_modules(bench: &Bench, driver: &Driver, way: Way, packets: u64, directory: &Path) -> Result<u64> {
    let file = directory.join(format!("callgrind.{packets}"));
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args([
            "bench",
            "--drive",
            way.name(),
            "--packets",
            &packets.to_string(),
            "--seed",
            &bench.seed.to_string(),
        ])
        .arg("--proto")
        .arg(&bench.proto);
    if driver.foreign {
        command.arg("--peer").arg(bench.peer.as_deref().unwrap_or(Path::new("")));
    }
    let output = command.stdin(Stdio::null()).output().context("valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "valgrind cannot run the lab: {}",
        said.lines().last().unwrap_or("no word")
    );
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(by_object(&text).get(NO_OBJECT).copied().unwrap_or(0))
}

/// Self cost by object of a callgrind file.
fn by_object(text: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    let (mut object, mut of_call) = ("", false);
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("ob=") {
            let (number, name) = named.split_once(' ').unwrap_or((named, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            object = names.get(number).copied().unwrap_or(number);
        } else if let Some(named) = line.strip_prefix("cob=") {
            if let Some((number, name)) = named.split_once(' ') {
                names.insert(number, name);
            }
        } else if line.starts_with("calls=") {
            // The line behind it is what was spent there, which is counted there.
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if !std::mem::take(&mut of_call) {
                *costs.entry(object.to_owned()).or_default() += cost.unwrap_or(0);
            }
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::by_object;

    #[test]
    fn what_a_function_calls_is_counted_where_it_is_spent() {
        let text = "events: Ir\nob=(1) /bin/lab\nfn=(1) main\n10 5\ncob=(2) ???\ncfn=(2) 0x1000\ncalls=3 0\n11 600\n\
                    +2 7\nob=(2)\nfn=(2)\n0 600\n";
        let costs = by_object(text);
        assert_eq!((costs["/bin/lab"], costs["???"]), (12, 600));
    }
}
