//! A network namespace of our own, gone when dropped, and when this process is killed.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use super::janitor::Janitor;

/// See the module's documentation.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Takes it away.
    janitor: Janitor,
}

impl Namespace {
    /// A fresh namespace for `host`, named after this process so that two labs do not meet.
    pub fn create(host: &str) -> Result<Self> {
        let name = format!("ibdlab-{}-{host}", std::process::id());
        // Before there is anything to take away.
        let janitor = Janitor::new(r#"exec ip netns del "$1""#, &name).context("cannot start `sh`")?;
        run(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name, janitor };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `program` in this namespace, not yet started. It is killed when the thread that starts it ends.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "ip", "netns", "exec", &self.name, program]);
        command
    }

    /// `ip ARGS` in this namespace.
    pub fn ip(&self, args: &[&str]) -> Result<()> {
        run(Command::new("ip").args(["-n", &self.name]).args(args)).map(drop)
    }
}

impl Namespace {
    /// Takes it away before its time; once is enough.
    pub fn remove(&self) {
        // Nothing can be done about a namespace that will not go; `ip netns` lists it by our name.
        self.janitor.work();
    }
}

/// Runs `command` to its end; anything but exit 0 is an error with what it wrote to standard error.
pub fn run(command: &mut Command) -> Result<Output> {
    let line = format!("{} {}", command.get_program().display(), args_of(command));
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}`: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}

fn args_of(command: &Command) -> String {
    command.get_args().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
