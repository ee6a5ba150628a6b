//! What mac and the driver asked of one another, as lines for a person, who may compare them with those of a kernel
//! (`metal run --calls`).

use fakekernel::Machine;

/// Every call, in order; the last line says how many were not kept.
pub fn lines(machine: &Machine) -> Vec<String> {
    let (lines, lost) = machine.journal();
    let lost = (lost > 0).then(|| format!("{lost} more calls were made"));
    lines.iter().map(|line| format!("{} {} {}", line.at, line.host, line.what)).chain(lost).collect()
}
