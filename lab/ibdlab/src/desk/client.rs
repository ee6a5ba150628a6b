//! The side of the person: starts a lab, ends it, runs commands on its hosts.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Seek, Write, stderr, stdout};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::capture::Capture;
use super::fabric::Order;
use super::frame_files;
use super::place::{Place, Presence};
use super::privilege;
use super::protocol::{self, Answer, Hello, INTERRUPT, Request, Run, Send, VERSION};
use super::sa::Asked;
use super::status::Status;
use crate::words::{complain, say, say_or_end};

/// Names the lab whose hosts a command is for.
const LAB: &str = "IBDLAB_LAB";
/// Names the host.
const HOST: &str = "IBDLAB_HOST";
/// Names the zone that programs of a host are in, if not the global one.
const ZONE: &str = "IBDLAB_ZONE";
/// What a lab is called that nobody gave a name.
pub const DEFAULT: &str = "lab";
/// How long a lab may take to end before it is said what it waits for.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a lab may take to end.
const DOWN_PATIENCE: Duration = Duration::from_secs(330);

/// The lab a person means: the one named, the one they sit in, the only one that is up.
///
/// # Errors
///
/// None, or several.
pub fn find(name: Option<&str>) -> Result<Place> {
    if let Some(name) = name.map(str::to_owned).or_else(|| std::env::var(LAB).ok()) {
        let place = Place::of(&name)?;
        return match place.presence() {
            Presence::Up => Ok(place),
            Presence::Stale => bail!(died(&place)),
            Presence::Absent => bail!("the lab `{name}` is not up: `ibdlab up SCENARIO --lab {name}`"),
        };
    }
    let (up, dead): (Vec<Place>, Vec<Place>) =
        Place::all()?.into_iter().partition(|place| place.presence() == Presence::Up);
    match &up[..] {
        [] => {
            let dead: Vec<String> = dead.iter().map(|place| format!("; {}", died(place))).collect();
            bail!("no lab is up: `ibdlab up SCENARIO` starts one{}", dead.concat())
        }
        [place] => Ok(place.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(Place::name).collect();
            bail!("several labs are up, say which with --lab: {}", names.join(", "))
        }
    }
}

/// Removes what the labs have left that [`find`] has just said to be not up any more.
pub fn clear_away(name: Option<&str>) {
    let named = name.map(str::to_owned).or_else(|| std::env::var(LAB).ok());
    let places = match named {
        Some(name) => Place::of(&name).into_iter().collect(),
        None => Place::all().unwrap_or_default(),
    };
    // With one that is up, nothing was said of the others.
    if places.iter().all(|place| place.presence() != Presence::Up) {
        places.iter().for_each(Place::remove_if_stale);
    }
}

/// That a daemon is gone, with what it wrote last.
fn died(place: &Place) -> String {
    let log = fs::read_to_string(place.log()).unwrap_or_default();
    let words = if log.trim().is_empty() { String::new() } else { format!(":\n{}", log.trim_end()) };
    format!("the lab `{}` is not up any more{words}", place.name())
}

/// Starts the daemon with these arguments and waits until it is ready or has ended. An interrupt meanwhile ends the daemon, too.
///
/// # Errors
///
/// What it said when it could not come up; an interrupt.
pub fn up(place: &Place, arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let _turn = place.turn()?;
    if place.presence() == Presence::Up {
        if let Some(host) = place.halts() {
            bail!("the lab `{}` is about to end: it waits for {host}", place.name());
        }
        bail!("the lab `{}` is up already: `ibdlab down --lab {0}` ends it", place.name());
    }
    place.make()?;
    let log = fs::File::options().create(true).read(true).append(true).open(place.log());
    let log = log.and_then(|log| log.set_len(0).map(|()| log));
    let log = log.with_context(|| place.log().display().to_string())?;
    let mut words = log.try_clone()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).arg("--foreground");
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("signals")?;
    let handle = signals.handle();
    let mut daemon =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0).spawn()?;
    let id = Pid::from_child(&daemon);
    let watching = std::thread::spawn(move || {
        let interrupted = signals.forever().next().is_some();
        if interrupted {
            // It may have ended by itself.
            let _ = kill_process(id, Signal::TERM);
        }
        interrupted
    });
    let mut line = String::new();
    if let Some(said) = daemon.stdout.take() {
        BufReader::new(said).read_line(&mut line)?;
    }
    handle.close();
    if watching.join().unwrap_or(false) {
        daemon.wait()?;
        place.remove_if_stale();
        bail!("interrupted: the lab `{}` is not up", place.name());
    }
    if line.is_empty() {
        daemon.wait()?;
        place.remove_if_stale();
        // The file is gone with its directory; what is open can be read.
        words.rewind()?;
        let words = std::io::read_to_string(words)?;
        let words: Vec<&str> =
            words.lines().map(|line| line.strip_prefix("ibdlab: ").unwrap_or(line)).collect();
        bail!("the lab did not come up: {}", words.join("\n"));
    }
    say(&line)?;
    // What did not come as the hosts' files have it.
    fs::read_to_string(place.log()).unwrap_or_default().lines().for_each(complain);
    Ok(())
}

/// Ends a lab and waits until it has ended.
///
/// # Errors
///
/// It did not end, or not cleanly: what it said.
#[expect(clippy::disallowed_methods, reason = "the patience of a person")]
pub fn down(place: &Place) -> Result<()> {
    let log = place.log();
    let mut words = fs::File::open(&log).ok();
    ask(place, Request::Down, |_| Ok(()))?;
    let begun = Instant::now();
    let mut told = None;
    while place.presence() == Presence::Up {
        if begun.elapsed() > DOWN_PATIENCE {
            bail!("the lab `{}` has not ended after {} s", place.name(), DOWN_PATIENCE.as_secs());
        }
        let halts = place.halts().filter(|_| begun.elapsed() > SILENCE);
        if halts.is_some() && halts != told {
            let host = halts.as_deref().unwrap_or_default();
            complain(&format!("waiting for {host} to leave its groups and end (^C: it does so by itself)"));
            told = halts;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The file may be gone with its directory; what was open can be read.
    let said = words.as_mut().and_then(|words| std::io::read_to_string(words).ok()).unwrap_or_default();
    match said.lines().rev().find(|line| line.starts_with("ibdlab: ")) {
        None => Ok(()),
        Some(line) => {
            place.remove_if_stale();
            Err(anyhow!("the lab `{}` did not end well: {}", place.name(), &line[8..]))
        }
    }
}

fn status(place: &Place) -> Result<Status> {
    let mut found = None;
    ask(place, Request::Status, |answer| {
        if let Answer::Status(status) = answer {
            found = Some(status.clone());
        }
        Ok(())
    })?;
    found.ok_or_else(|| anyhow!("the lab `{}` does not say how it is", place.name()))
}

/// The state of a lab, for a person or as JSON.
///
/// # Errors
///
/// It does not answer.
pub fn show_status(place: &Place, json: bool) -> Result<()> {
    let status = status(place)?;
    let text = if json { serde_json::to_string_pretty(&status)? + "\n" } else { status.lines(None) };
    say(&text)
}

/// The state of a lab once a second, with rates, until it ends, an interrupt comes, or nobody looks any more.
///
/// # Errors
///
/// It does not answer the first time; what is in the way of the output.
pub fn watch_status(place: &Place) -> Result<()> {
    const CLEAR: &str = "\x1b[H\x1b[2J";
    let mut before: Option<Status> = None;
    loop {
        let now = match status(place) {
            Err(error) if before.is_none() => return Err(error),
            Err(_) => return Ok(()),
            Ok(now) => now,
        };
        let text = format!("{CLEAR}{}", now.lines(before.as_ref()));
        let mut out = stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("standard output")?,
        }
        before = Some(now);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Does something to the fabric, and prints what there is to say.
///
/// # Errors
///
/// Why it cannot be done, or said.
pub fn fabric(place: &Place, order: Order) -> Result<()> {
    ask(place, Request::Fabric(order), |answer| match answer {
        Answer::Out(text) => say(text),
        Answer::Err(_) | Answer::Exit(_) | Answer::Status(_) | Answer::Refused(_) => Ok(()),
    })
}

/// Asks subnet administration from a port of a host, and prints the answer.
///
/// # Errors
///
/// What is wrong with the question, or why there is no answer, or what is in the way of the output.
pub fn sa(place: &Place, asked: Asked) -> Result<()> {
    ask(place, Request::Sa(asked), |answer| {
        match answer {
            Answer::Out(text) => say(text)?,
            // Of what cannot be said there nobody can be told.
            Answer::Err(text) => drop(stderr().write_all(text.as_bytes())),
            Answer::Exit(_) | Answer::Status(_) | Answer::Refused(_) => {}
        }
        Ok(())
    })
}

/// Captures in a file until it has as many packets as were asked for, or an interrupt comes.
///
/// # Errors
///
/// What is in the way.
pub fn capture(place: &Place, capture: Capture) -> Result<()> {
    let capture = Capture { file: std::env::current_dir()?.join(capture.file), ..capture };
    ask(place, Request::Capture(capture), |answer| {
        if let Answer::Err(text) = answer {
            // As above.
            let _ = stderr().write_all(text.as_bytes());
        }
        Ok(())
    })
}

/// Sends the frames of a file from a host, to `to` where the file does not say where.
///
/// # Errors
///
/// What is wrong with the file, the host or the link; how many frames were taken if not all were.
pub fn send(place: &Place, host: &str, link: &str, file: &Path, to: Option<[u8; 20]>) -> Result<()> {
    let name = || file.display().to_string();
    let bytes = fs::read(file).with_context(name)?;
    let frames = frame_files::lines(&bytes, to).map_err(|why| anyhow!(why)).with_context(name)?;
    let send = Send { host: host.to_owned(), link: link.to_owned(), frames };
    ask(place, Request::Send(send), |_| Ok(())).with_context(name)
}

/// Becomes a program with the commands of a host on its path, so that signals and exit code are the program's. Only a failure
/// comes back.
///
/// # Errors
///
/// There is no such program.
pub fn exec(place: &Place, host: &str, program: &[OsString]) -> Result<i32> {
    let Some((name, arguments)) = program.split_first() else {
        bail!("no command to run: `ibdlab exec HOST -- COMMAND`")
    };
    let hosts = status(place)?.hosts;
    let Some(found) = hosts.iter().find(|known| known.name == host) else {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        bail!("there is no host `{host}`, expected one of {}", names.join(", "));
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(place.commands()).chain(std::env::split_paths(&path)))?;
    // A host with a TUN device lives in a namespace of Linux's, and so do its programs.
    let mut command = match &found.namespace {
        None => Command::new(name),
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(name);
            command
        }
    };
    command.args(arguments).env("PATH", path).env(LAB, place.name()).env(HOST, host);
    command.env("PS1", format!("{host}# "));
    Err(command.exec()).with_context(|| format!("cannot run {}", name.display()))
}

/// Commands that start another one with something changed; they need no host to do that.
pub const CLIENTS: [&str; 2] = ["ppriv", "zlogin"];

/// The name of a command, if this process was started by one's link.
pub fn called_as(argument: &OsString) -> Option<String> {
    let name = Path::new(argument).file_name()?.to_str()?;
    let known = CLIENTS.contains(&name) || admin::names().any(|command| command == name);
    known.then(|| name.to_owned())
}

/// A command of illumos, run on the host that the environment names; its exit code. If nobody reads what it says, the process ends by
/// SIGPIPE, and the daemon ends the command when the socket closes.
///
/// # Errors
///
/// There is no lab, no host, or no command; something else is in the way of the output.
pub fn command(name: &str, arguments: Vec<String>) -> Result<i32> {
    if name == "ppriv" {
        let (command, privileged) = privilege::parse(&arguments)?;
        let mut less = Command::new(&command[0]);
        less.args(&command[1..]);
        if !privileged {
            less.env(privilege::VARIABLE, "basic");
        }
        // Only a failure comes back.
        return Err(less.exec()).with_context(|| command[0].clone());
    }
    if name == "zlogin" {
        return zlogin(&arguments);
    }
    let host = std::env::var(HOST).context("on which host? `ibdlab exec HOST -- COMMAND` says it")?;
    let place = find(None)?;
    let run = Run {
        host,
        arguments: std::iter::once(name.to_owned()).chain(arguments).collect(),
        rows: rows(),
        privileged: privilege::is_privileged(),
        zone: std::env::var(ZONE).ok(),
        directory: std::env::current_dir()?.to_string_lossy().into_owned(),
    };
    let mut code = 1;
    ask(&place, Request::Run(run), |answer| {
        match answer {
            Answer::Out(text) => say_or_end(&mut stdout(), text).context("standard output")?,
            // Of what cannot be said there nobody can be told.
            Answer::Err(text) => drop(say_or_end(&mut stderr(), text)),
            Answer::Exit(exit) => code = *exit,
            Answer::Status(_) | Answer::Refused(_) => {}
        }
        Ok(())
    })?;
    Ok(code)
}

/// A shell in a zone, for what the arguments say, with blanks between (`prep_args` of `zlogin.c`), or for its user. Only a failure
/// comes back.
fn zlogin(arguments: &[String]) -> Result<i32> {
    let Some((zone, program)) = arguments.split_first() else {
        bail!("usage: zlogin <zonename> [<utility> [<argument>...]]");
    };
    let host = std::env::var(HOST).context("on which host? `ibdlab exec HOST -- COMMAND` says it")?;
    if std::env::var_os(ZONE).is_some() {
        bail!("can only be used from the global zone");
    }
    if !privilege::is_privileged() {
        bail!("You lack sufficient privilege to run this command (all privs required)");
    }
    let Some(found) = status(&find(None)?)?.hosts.into_iter().find(|known| known.name == host) else {
        bail!("there is no host `{host}`");
    };
    if !found.zones.contains(zone) {
        bail!("login allowed only to running zones ({zone} does not run)");
    }
    let mut command = if program.is_empty() {
        Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()))
    } else {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &program.join(" ")]);
        command
    };
    command.env(ZONE, zone).env("PS1", format!("{host}:{zone}# "));
    Err(command.exec()).with_context(|| format!("cannot run {}", command.get_program().display()))
}

/// Rows of the terminal on standard output.
fn rows() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(24, |size| size.ws_row.into()).max(2)
}

/// Sends a request and passes every answer on, until the last one or an error of `heard`. While a command runs, or a capture, an
/// interrupt is told to the daemon, which ends it.
fn ask(place: &Place, request: Request, heard: impl FnMut(&Answer) -> Result<()>) -> Result<()> {
    let stream = match UnixStream::connect(place.socket()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("the lab `{}` is not ready yet", place.name())
        }
        connected => connected.map_err(|_| anyhow!(died(place)))?,
    };
    let mut writer = stream.try_clone()?;
    let interruptible = matches!(request, Request::Run(_) | Request::Capture(_));
    let line = protocol::line(&Hello { version: VERSION, request })?;
    // A lab that takes no more clients has said so and reads nothing.
    let sent = writer.write_all(line.as_bytes());
    if sent.is_err() && place.presence() != Presence::Up {
        bail!(died(place));
    }
    if !interruptible {
        return hear(place, stream, heard);
    }
    let mut signals = Signals::new([SIGINT]).context("signals")?;
    let handle = signals.handle();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // A daemon that is gone ends the command as well.
            let _ = writer.write_all(format!("{INTERRUPT}\n").as_bytes());
        }
    });
    let result = hear(place, stream, heard);
    handle.close();
    result
}

/// Passes answers on until the last one.
fn hear(place: &Place, stream: UnixStream, mut heard: impl FnMut(&Answer) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let answer = protocol::receive(&mut reader)?.ok_or_else(|| anyhow!(died(place)))?;
        heard(&answer)?;
        match answer {
            Answer::Out(_) | Answer::Err(_) => {}
            Answer::Exit(_) | Answer::Status(_) => return Ok(()),
            Answer::Refused(why) => bail!(why),
        }
    }
}
