//! What is tried on a kernel, case by case.

use std::time::Duration;

use anyhow::Result;

use crate::machine::Options;

/// Boots, tries, reports; whether all was well.
///
/// # Errors
///
/// The machine could not be booted, or came into trouble.
pub fn run(options: &Options) -> Result<bool> {
    let mut machine = options.boot(None)?;
    let answer = machine.session.ask("0", "modules", Duration::from_secs(30))?;
    let modules = answer.map_or(0, |fields| fields.pairs().count());
    println!("the kernel runs, {modules} modules are loaded");
    machine.session.end();
    Ok(modules > 0)
}
