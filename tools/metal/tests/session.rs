//! The line to an agent, with a machine that is none: a thread that answers as an agent would, and a console of our own words.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use metal::machine::console::Console;
use metal::machine::{Session, Trouble};

/// Long enough for a thread to answer, however busy this machine is.
const PATIENT: Duration = Duration::from_secs(30);
/// Short, for what never comes.
const SHORT: Duration = Duration::from_millis(300);

/// What a fake machine does when it is asked: lines to send back, and text for its console.
type Behaviour = fn(id: &str, process: &str, words: &str) -> (Vec<String>, &'static str);

/// A session with a machine that behaves so.
fn machine(behaviour: Behaviour) -> Result<(tempfile::TempDir, Session)> {
    let place = tempfile::tempdir()?;
    let console = place.path().join("console");
    std::fs::write(&console, "booting\n")?;
    let (ours, theirs) = UnixStream::pair()?;
    let log = console.clone();
    thread::spawn(move || answer(theirs, log, behaviour));
    Ok((place, Session::new(ours, Console::new(&console), None)?))
}

fn answer(stream: UnixStream, console: PathBuf, behaviour: Behaviour) -> Result<()> {
    let mut out = stream.try_clone()?;
    out.write_all(b"0 ok metal-agent 1\n")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let mut parts = line.splitn(3, ' ');
        let (id, process) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (lines, said) = behaviour(id, process, parts.next().unwrap_or_default());
        // The kernel is on the console before the line is cut.
        OpenOptions::new().append(true).open(&console)?.write_all(said.as_bytes())?;
        if said.contains("panic[") {
            return Ok(());
        }
        for line in lines {
            out.write_all(line.as_bytes())?;
            out.write_all(b"\r\n")?;
        }
    }
    Ok(())
}

fn obedient(id: &str, process: &str, words: &str) -> (Vec<String>, &'static str) {
    let answer = match (process, words) {
        ("0", "load drv/ibp") => format!("{id} ok id=82"),
        ("0", "unload ibp") => format!("{id} no 16 modunload"),
        _ => format!("{id} ok"),
    };
    (vec![answer], "")
}

#[test]
fn an_answer_has_fields_and_a_refusal_its_errno() -> Result<()> {
    let (_place, mut session) = machine(obedient)?;
    session.greeting(PATIENT)?;
    let loaded = session.ask("0", "load drv/ibp", PATIENT)?;
    assert_eq!(loaded.map(|fields| fields.number("id")), Ok(Some(82)));
    let refused = session.ask("0", "unload ibp", PATIENT)?.map_err(|refusal| (refusal.errno, refusal.what));
    assert_eq!(refused.map(drop), Err((16, "modunload".to_owned())));
    Ok(())
}

/// Keeps the first answer back until the second question comes.
fn crossing(id: &str, _: &str, _: &str) -> (Vec<String>, &'static str) {
    if id == "1" { (vec![], "") } else { (vec!["2 ok second".into(), "1 ok first".into()], "") }
}

#[test]
fn answers_find_their_questions_in_whatever_order_they_come() -> Result<()> {
    let (_place, mut session) = machine(crossing)?;
    let one = session.begin("za", "tcp-receive 3")?;
    let two = session.begin("zb", "tcp-send 10.0.0.1")?;
    assert_eq!(session.finish(one, PATIENT)?.map(|fields| fields.text), Ok("first".into()));
    assert_eq!(session.finish(two, PATIENT)?.map(|fields| fields.text), Ok("second".into()));
    Ok(())
}

/// The router answers, the process does not.
fn hung_call(id: &str, process: &str, _: &str) -> (Vec<String>, &'static str) {
    if process == "router" { (vec![format!("{id} ok metal-agent 1")], "") } else { (vec![], "") }
}

#[test]
fn a_call_that_does_not_return_is_told_from_a_machine_that_hangs() -> Result<()> {
    let silent = |_: &str, _: &str, _: &str| (vec![], "");
    for (behaviour, expected) in [(hung_call as Behaviour, true), (silent as Behaviour, false)] {
        let (_place, mut session) = machine(behaviour)?;
        session.greeting(PATIENT)?;
        match session.ask("0", "part-delete 101", SHORT) {
            Err(Trouble::Silence { alive, words, .. }) => {
                assert_eq!((alive, words.as_str()), (expected, "part-delete 101"))
            }
            other => bail!("{other:?}"),
        }
    }
    Ok(())
}

fn panicking(_: &str, _: &str, _: &str) -> (Vec<String>, &'static str) {
    let said = "\npanic[cpu0]/thread=1: assertion failed: ours == 1, file: ours.c, line: 7\n\n\
        ffffff000249b020 ibp:_RNvNtCs1_3ibd4ring5close+1c ()\n\nrebooting...\n";
    (vec![], said)
}

#[test]
fn a_panic_ends_the_question_at_once_with_its_message_and_stack() -> Result<()> {
    let (_place, mut session) = machine(panicking)?;
    session.greeting(PATIENT)?;
    match session.ask("0", "load drv/ibp", PATIENT) {
        Err(Trouble::Panic(panic)) => {
            assert_eq!(panic.message, "assertion failed: ours == 1, file: ours.c, line: 7");
            assert_eq!(panic.stack, ["ibp:_RNvNtCs1_3ibd4ring5close+1c"]);
        }
        other => bail!("{other:?}"),
    }
    Ok(())
}

/// The answer comes after more words on the console than there is patience for one.
fn talking(id: &str, process: &str, _: &str) -> (Vec<String>, &'static str) {
    match (id, process) {
        ("1", _) => (vec![], "WARNING: still at it\n"),
        _ => (vec!["1 ok at last".into(), format!("{id} ok")], "WARNING: done\n"),
    }
}

#[test]
fn while_the_kernel_talks_the_machine_does_not_hang() -> Result<()> {
    let (_place, mut session) = machine(talking)?;
    let slow = session.begin("0", "memory")?;
    assert!(session.ask("0", "hello", PATIENT)?.is_ok());
    assert_eq!(session.finish(slow, PATIENT)?.map(|fields| fields.text), Ok("at last".into()));
    Ok(())
}

#[test]
fn what_is_no_answer_is_said_as_it_came() -> Result<()> {
    let (_place, mut session) = machine(|id, _, _| (vec![format!("{id} maybe")], ""))?;
    match session.ask("0", "hello", PATIENT) {
        Err(Trouble::Nonsense(line)) => assert_eq!(line, "1 maybe"),
        other => bail!("{other:?}"),
    }
    Ok(())
}
