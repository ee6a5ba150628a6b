//! Linux's own programs over the drivers.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::traffic::owner;
use crate::linux::{Janitor, Namespace, run};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::{LinuxFetchStep, LinuxPingStep};

const HTTP_PORT: u16 = 8080;
const PING_INTERVAL: &str = "0.002";
/// Seconds in which a neighbour has to answer for the first time.
const FIRST_WITHIN: &str = "20";

/// `ping -c COUNT` in a namespace; none may be lost. One before them finds the neighbour, which may take longer than the few
/// packets that wait for it.
pub fn linux_ping(world: &mut World, step: &LinuxPingStep) -> Result<Findings> {
    let from = world.host(step.from.get_ref())?;
    let mut first = from.namespace()?.command("ping");
    run(first.args(["-q", "-c", "1", "-w", FIRST_WITHIN, &step.to.to_string()]))?;
    let mut ping = from.namespace()?.command("ping");
    ping.args(["-q", "-i", PING_INTERVAL, "-c", &step.count.to_string(), &step.to.to_string()]);
    let output = run(&mut ping)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.contains("packets transmitted")).unwrap_or_default();
    let wanted = format!("{} packets transmitted, {} received, 0% packet loss", step.count, step.count);
    ensure!(summary.starts_with(&wanted), "ping says `{summary}`, expected `{wanted}`");
    let times = text.lines().find(|line| line.starts_with("rtt")).unwrap_or_default();
    Ok(Findings::new(format!("{} -> {}: {wanted}\n{times}", from.name, step.to)).fact("received", step.count))
}

/// A web server in one namespace, curl in the other; the file must arrive as it was.
#[expect(clippy::disallowed_methods, reason = "Linux's programs live on the wall clock")]
pub fn linux_fetch(world: &mut World, step: &LinuxFetchStep) -> Result<Findings> {
    let from = world.host(step.from.get_ref())?;
    let server = owner(world, from, *step.to.get_ref())?;
    let directory = tempfile::tempdir().context("a directory for the web server")?;
    // It is as large as what is fetched, and an interrupt runs no destructor.
    let _janitor = Janitor::new(r#"rm -rf "$1""#, directory.path()).context("cannot start `sh`")?;
    let (offered, fetched) = (directory.path().join("file"), directory.path().join("fetched"));
    make_file(&offered, step.bytes.get_ref().0)?;
    let _server = WebServer::start(server.namespace()?, directory.path())?;
    let before = LargeSends::of(world, server)?;
    let begun = Instant::now();
    let url = format!("http://{}/file", SocketAddr::new(*step.to.get_ref(), HTTP_PORT));
    let mut curl = from.namespace()?.command("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--fail",
        "--retry",
        "10",
        "--retry-connrefused",
        "--retry-delay",
        "1",
    ]);
    run(curl.arg("--output").arg(&fetched).arg(&url))?;
    let took = begun.elapsed();
    let large = LargeSends::of(world, server)?.since(before);
    let (sent, got) = (sha256(&offered)?, sha256(&fetched)?);
    ensure!(sent == got, "SHA-256 {sent} offered, {got} fetched");
    let rate = step.bytes.get_ref().0 as f64 / took.as_secs_f64() / 1e6;
    let text = format!(
        "{} fetched {url}: {} bytes in {:.1} s ({rate:.0} MB/s), SHA-256 {}...\n{} large sends of {} cut by its adapter",
        from.name,
        step.bytes.get_ref().0,
        took.as_secs_f64(),
        &got[..16],
        large.adapter,
        server.name,
    );
    let findings = Findings::new(text).fact("bytes", step.bytes.get_ref().0).fact("sha256", got);
    Ok(findings.fact("large_sends", large.adapter).fact("driver_large_sends", large.driver))
}

/// Large sends of a host, as its adapter and its driver count them.
struct LargeSends {
    adapter: u64,
    driver: Option<u64>,
}

impl LargeSends {
    fn of(world: &World, host: &HostRun) -> Result<Self> {
        let adapter = world.infiniband.fabric().port_counters(host.port)?.large_sends;
        Ok(Self { adapter, driver: host.counter("tx_large") })
    }

    fn since(self, before: Self) -> Self {
        let driver = self.driver.zip(before.driver).map(|(now, before)| now - before);
        Self { adapter: self.adapter - before.adapter, driver }
    }
}

/// `busybox httpd`, killed when dropped.
struct WebServer(Child);

impl WebServer {
    fn start(namespace: &Namespace, directory: &Path) -> Result<Self> {
        let mut command = namespace.command("busybox");
        command.args(["httpd", "-f", "-p", &HTTP_PORT.to_string(), "-h"]).arg(directory);
        let child = command.stdout(Stdio::null()).spawn().context("cannot start busybox httpd")?;
        Ok(Self(child))
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let source = fs::File::open("/dev/urandom").context("/dev/urandom")?;
    let mut file = fs::File::create(path).context("the file to offer")?;
    std::io::copy(&mut source.take(bytes), &mut file).context("the file to offer")?;
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    hash.update(&bytes);
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
