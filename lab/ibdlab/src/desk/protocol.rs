//! What goes over a lab's socket: one request, then answers, each a line of JSON.

use std::io::{BufRead, ErrorKind, Read as _, Write};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::capture::Capture;
use super::fabric::Order;
use super::sa::Asked;
use super::status::Status;

/// Both sides are of one build, or say so.
pub const VERSION: u32 = 1;

/// The first line from a client.
#[derive(Debug, Deserialize, Serialize)]
pub struct Hello {
    pub version: u32,
    pub request: Request,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Run a command on a host.
    Run(Run),
    /// Send frames as they are.
    Send(Send),
    /// Capture the fabric's frames or a link's packets.
    Capture(Capture),
    /// Ask subnet administration.
    Sa(Asked),
    /// Do something to the fabric.
    Fabric(Order),
    /// How is everybody?
    Status,
    /// End the lab.
    Down,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Run {
    pub host: String,
    /// The command's name and its arguments.
    pub arguments: Vec<String>,
    /// Rows of the terminal.
    pub rows: usize,
    /// Has the process the privileges of root?
    pub privileged: bool,
    /// The zone it is in, if not the global one.
    #[serde(default)]
    pub zone: Option<String>,
    /// The directory that relative names of files are meant from.
    pub directory: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Send {
    pub host: String,
    pub link: String,
    /// Lines; see [`super::frames`].
    pub frames: String,
}

/// What a client may say while its command runs.
pub const INTERRUPT: &str = "interrupt";

/// A line from the daemon. The last one is `Exit`, `Status` or `Refused`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Out(String),
    Err(String),
    Exit(i32),
    Status(Status),
    /// The request could not be carried out: why.
    Refused(String),
}

/// The longest line, in octets. What `ibdlab send` has to say of a file is the longest one there is.
pub const LONGEST: usize = 16 << 20;

/// What is sent, as a line.
///
/// # Errors
///
/// It is longer than [`LONGEST`].
pub fn line(what: &impl Serialize) -> Result<String> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    if line.len() > LONGEST {
        bail!("a request of {} octets, and a lab takes {LONGEST} at most", line.len());
    }
    Ok(line)
}

/// Writes a line.
///
/// # Errors
///
/// What the socket says.
pub fn send(to: &mut impl Write, what: &impl Serialize) -> Result<()> {
    to.write_all(line(what)?.as_bytes())?;
    to.flush()?;
    Ok(())
}

/// Reads a line; `None` at the end, wherever the other side has left off.
///
/// # Errors
///
/// What the socket says, that the line is longer than [`LONGEST`], or that it is not what was expected.
pub fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    match from.take(LONGEST as u64).read_until(b'\n', &mut line) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => return Err(error.into()),
        _ if line.ends_with(b"\n") => {}
        _ if line.len() >= LONGEST => bail!("a line of more than {LONGEST} octets"),
        // A process that dies leaves half a line, or what it has not read.
        _ => return Ok(None),
    }
    serde_json::from_slice(&line).map(Some).with_context(|| {
        let begins: String = String::from_utf8_lossy(&line).trim_end().chars().take(SHOWN).collect();
        format!("not understood: {begins}")
    })
}

/// Characters of a line that a message has room for.
const SHOWN: usize = 200;

/// Reads a request.
///
/// # Errors
///
/// As for [`receive`]; a client of another version.
pub fn request(from: &mut impl BufRead) -> Result<Option<Request>> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Some(hello) = receive::<serde_json::Value>(from)? else { return Ok(None) };
    let version = Version::deserialize(&hello).context("a request has a version")?.version;
    if version != VERSION {
        bail!("this lab speaks version {VERSION} of the protocol, the request is of version {version}");
    }
    Ok(Some(Hello::deserialize(hello).context("a request")?.request))
}
