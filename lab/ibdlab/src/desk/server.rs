//! A lab's socket: a thread for each client. Their number is bounded, and none is trusted to be quick.

use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use admin::{Exit, Session, Terminal};
use anyhow::Result;
use lab_ibtf::InfiniBand;

use super::capture::{self, Capture};
use super::fabric;
use super::frames;
use super::host::DeskHost;
use super::jobs::Jobs;
use super::protocol::{self, Answer, INTERRUPT, Request, Run};
use super::sa;
use super::status;
use super::system::Process;

/// How soon a client hears that the machine has halted.
const ATTENTION: Duration = Duration::from_millis(100);
/// Clients at once: more than a person's scripts need, and fewer than a process has descriptors for.
const CLIENTS: usize = 128;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// Answers that wait for a client that reads slowly. A command that says more waits, as for any pipe that is full.
const ANSWERS: usize = 64;

/// What the daemon's threads have in common.
pub struct Lab {
    pub name: String,
    pub hosts: Vec<Arc<DeskHost>>,
    pub jobs: Jobs,
    pub infiniband: InfiniBand,
    pub sm: &'static str,
    /// The fabric is being captured.
    pub captured: AtomicBool,
    /// Why the machine halted, if it did.
    pub halted: OnceLock<String>,
}

/// Accepts clients for as long as the process lives.
pub fn serve(listener: UnixListener, lab: Arc<Lab>) {
    std::thread::spawn(move || {
        let clients = Arc::new(());
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // There is no descriptor left, for one: clients that end give some back.
                std::thread::sleep(ATTENTION);
                continue;
            };
            let (lab, client) = (lab.clone(), clients.clone());
            let full = Arc::strong_count(&clients) > CLIENTS + 1;
            // Where no thread can be started the socket closes, and the client says that the lab does not answer.
            let _ = std::thread::Builder::new().spawn(move || {
                // A client that is gone needs no answer.
                let _ = if full { refuse(&stream) } else { converse(&stream, &lab) };
                let _ = stream.shutdown(std::net::Shutdown::Both);
                drop(client);
            });
        }
    });
}

/// There are too many clients already.
fn refuse(mut stream: &UnixStream) -> Result<()> {
    stream.set_write_timeout(Some(ATTENTION))?;
    let why = format!("{CLIENTS} commands are under way in this lab, and it takes no more");
    protocol::send(&mut stream, &Answer::Refused(why))
}

fn converse(stream: &UnixStream, lab: &Arc<Lab>) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(ATTENTION))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = Patient { stream, lab };
    let request = match protocol::request(&mut reader) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(()),
        Err(error) => return protocol::send(&mut writer, &Answer::Refused(format!("{error:#}"))),
    };
    stream.set_read_timeout(None)?;
    let (answers, arrived) = sync_channel(ANSWERS);
    let accepted = match request {
        Request::Down => {
            lab.jobs.close();
            return protocol::send(&mut writer, &Answer::Exit(0));
        }
        Request::Status => {
            let asked = lab.clone();
            let Some(first) = lab.hosts.first() else { return Ok(()) };
            lab.jobs.put(&first.kernel, move || {
                // The client may have left.
                let _ = answers.send(Answer::Status(status::of(&asked)));
            })
        }
        Request::Fabric(order) => {
            let (asked, infiniband) = (lab.clone(), lab.infiniband.clone());
            let Some(first) = lab.hosts.first() else { return Ok(()) };
            lab.jobs.put(&first.kernel, move || {
                // The client may have left.
                let _ = match fabric::obey(&asked, &infiniband, &order) {
                    Ok(text) => answers.send(Answer::Out(text)).and_then(|()| answers.send(Answer::Exit(0))),
                    Err(why) => answers.send(Answer::Refused(why)),
                };
            })
        }
        Request::Sa(asked) => match start_question(asked, lab, answers) {
            Ok(accepted) => accepted,
            Err(why) => return protocol::send(&mut writer, &Answer::Refused(why)),
        },
        Request::Send(send) => match send_frames(&send, lab, answers) {
            Ok(accepted) => accepted,
            Err(why) => return protocol::send(&mut writer, &Answer::Refused(why)),
        },
        Request::Capture(wanted) => match start_capture(wanted, lab, reader, answers) {
            Ok(accepted) => accepted,
            Err(why) => return protocol::send(&mut writer, &Answer::Refused(why)),
        },
        Request::Run(run) => match start(run, lab, reader, answers) {
            Ok(accepted) => accepted,
            Err(why) => return protocol::send(&mut writer, &Answer::Refused(why)),
        },
    };
    if !accepted {
        return protocol::send(&mut writer, &Answer::Refused("the lab is going down".into()));
    }
    pass_on(&mut writer, lab, &arrived)
}

pub fn find_host(lab: &Lab, name: &str) -> Result<Arc<DeskHost>, String> {
    lab.hosts.iter().find(|host| host.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = lab.hosts.iter().map(|host| host.name.as_str()).collect();
        format!("there is no host `{name}`, expected one of {}", names.join(", "))
    })
}

fn send_frames(send: &protocol::Send, lab: &Lab, answers: SyncSender<Answer>) -> Result<bool, String> {
    let host = find_host(lab, &send.host)?;
    let list = frames::parse(&send.frames)?;
    let (kernel, link) = (host.kernel.clone(), send.link.clone());
    Ok(lab.jobs.put(&host.kernel, move || {
        let answer = match frames::send(&kernel, &link, &list) {
            Err(errno) => Answer::Refused(format!("{link}: {errno}")),
            Ok(sent) if sent == list.len() => Answer::Exit(0),
            Ok(sent) => Answer::Refused(format!("{link}: {sent} of {} frames were taken", list.len())),
        };
        // The client may have left.
        let _ = answers.send(answer);
    }))
}

fn start_question(asked: sa::Asked, lab: &Arc<Lab>, answers: SyncSender<Answer>) -> Result<bool, String> {
    let host = match &asked.host {
        Some(host) => find_host(lab, host)?,
        None => lab.hosts.first().cloned().ok_or("there is no host")?,
    };
    let (kernel, lab) = (host.kernel.clone(), lab.clone());
    Ok(lab.clone().jobs.put(&kernel, move || {
        // The client may have left.
        let _ = match sa::ask(&lab, &host, &asked) {
            Err(why) => answers.send(Answer::Refused(why)),
            Ok(found) => {
                let text = if asked.json { found.json() } else { found.text() };
                let warning = found.warning().unwrap_or_default().to_owned();
                let told = answers.send(Answer::Out(text)).and_then(|()| answers.send(Answer::Err(warning)));
                told.and_then(|()| answers.send(Answer::Exit(0)))
            }
        };
    }))
}

fn start_capture(
    wanted: Capture,
    lab: &Arc<Lab>,
    reader: BufReader<UnixStream>,
    answers: SyncSender<Answer>,
) -> Result<bool, String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    listen(reader, interrupted.clone());
    let host = match &wanted.link {
        Some((host, _)) => find_host(lab, host)?,
        None => lab.hosts.first().cloned().ok_or("there is no host")?,
    };
    let (kernel, asked, until) = (host.kernel.clone(), lab.clone(), interrupted.clone());
    Ok(lab.jobs.put_until(&until, &host.kernel, move || {
        let started = || {
            // The client may have left.
            let _ = answers.send(Answer::Err(format!("capturing in {}\n", wanted.file.display())));
        };
        let taken = match &wanted.link {
            None => capture::fabric(&asked.infiniband, &wanted, &asked.captured, &interrupted, started),
            Some((_, link)) => capture::link(&kernel, link, &wanted, &interrupted, started),
        };
        // As above.
        let _ = match taken {
            Err(why) => answers.send(Answer::Refused(why)),
            Ok(taken) => {
                let lost = if taken.lost > 0 { format!(", {} lost", taken.lost) } else { String::new() };
                let words = format!("{} packets{lost}\n", taken.packets);
                answers.send(Answer::Err(words)).and_then(|()| answers.send(Answer::Exit(0)))
            }
        };
    }))
}

/// Puts a command into the hands of its host.
fn start(
    run: Run,
    lab: &Arc<Lab>,
    reader: BufReader<UnixStream>,
    answers: SyncSender<Answer>,
) -> Result<bool, String> {
    let host = find_host(lab, &run.host)?;
    let zone = run.zone.as_ref().map(|name| {
        host.zones.find(name).ok_or_else(|| format!("{} has no zone `{name}` that runs", host.name))
    });
    let zone = zone.transpose()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    listen(reader, interrupted.clone());
    let kernel = host.kernel.clone();
    let process =
        Process::new(host, lab.hosts.clone(), run.privileged, run.directory.into(), interrupted.clone())
            .in_zone(zone);
    let (rows, until) = (run.rows, interrupted.clone());
    Ok(lab.jobs.put_until(&until, &kernel, move || {
        let mut terminal = Remote { answers, rows, interrupted };
        let mut session = Session { system: &process, terminal: &mut terminal };
        let (name, arguments) = run.arguments.split_first().map_or(("", &[][..]), |(n, a)| (n, a));
        let answer = match admin::run(&mut session, name, arguments) {
            Some(Exit(code)) => Answer::Exit(code),
            None => Answer::Refused(format!("the lab has no command `{name}`")),
        };
        // The client may have left.
        let _ = terminal.answers.send(answer);
    }))
}

/// Hears what the client has to say, or that it is gone.
fn listen(mut reader: BufReader<UnixStream>, interrupted: Arc<AtomicBool>) {
    let heard = interrupted.clone();
    let listening = std::thread::Builder::new().spawn(move || {
        let mut line = String::new();
        // Whatever else it says is nothing that a client of ours does.
        let most = INTERRUPT.len() as u64 + 1;
        let _ = reader.by_ref().take(most).read_line(&mut line);
        heard.store(true, Ordering::Relaxed);
    });
    if listening.is_err() {
        interrupted.store(true, Ordering::Relaxed);
    }
}

/// Writes to a client for as long as it may take to read; one that keeps the lab from ending is given up.
struct Patient<'a> {
    stream: &'a UnixStream,
    lab: &'a Lab,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let ends = self.lab.jobs.are_closed() || self.lab.halted.get().is_some();
            match (&mut &*self.stream).write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && !ends => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pass_on(writer: &mut Patient<'_>, lab: &Lab, arrived: &Receiver<Answer>) -> Result<()> {
    loop {
        match arrived.recv_timeout(ATTENTION) {
            Ok(answer) => {
                protocol::send(writer, &answer)?;
                if !matches!(answer, Answer::Out(_) | Answer::Err(_)) {
                    return Ok(());
                }
            }
            Err(RecvTimeoutError::Timeout) if lab.halted.get().is_none() => {}
            Err(_) => {
                let why = lab.halted.get().map_or("the command was ended", String::as_str);
                return protocol::send(writer, &Answer::Refused(format!("the lab has halted: {why}")));
            }
        }
    }
}

/// A client's terminal.
struct Remote {
    answers: SyncSender<Answer>,
    rows: usize,
    interrupted: Arc<AtomicBool>,
}

impl Terminal for Remote {
    fn out(&mut self, text: &str) {
        self.say(Answer::Out(text.to_owned()));
    }

    fn err(&mut self, text: &str) {
        self.say(Answer::Err(text.to_owned()));
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Remote {
    fn say(&self, answer: Answer) {
        let empty = matches!(&answer, Answer::Out(text) | Answer::Err(text) if text.is_empty());
        if !empty && self.answers.send(answer).is_err() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
    }
}
