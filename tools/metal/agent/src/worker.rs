//! A process that does commands, one after the other, and answers each with one line.

use core::fmt::Write as _;

use crate::answer::{Answer, Lines};
use crate::commands::{self, Failure};
use crate::sys::Fd;
use crate::sys::files::{read, write_all};
use crate::words::Words;

/// Does what comes until the other end is closed.
pub fn run(from: Fd, to: Fd) {
    let mut lines = Lines::<4096>::default();
    let mut buffer = [0; 4096];
    loop {
        match read(from, &mut buffer) {
            Ok(length @ 1..) => lines.feed(&buffer[..length], |line| one(line, to)),
            _ => return,
        }
    }
}

fn one(line: &str, to: Fd) {
    let mut words = Words::new(line);
    let Ok(id) = words.number::<u32>() else { return };
    let mut answer = Answer::default();
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, "{id} ok");
    let outcome = if words.maybe_is("dls-serve") {
        let _ = writeln!(answer);
        commands::serve_dls(|| {
            let _ = write_all(to, answer.bytes());
        })
    } else {
        commands::run(&mut words, &mut answer)
    };
    if let Err(failure) = outcome {
        answer.clear();
        let _ = match failure {
            Failure::Call(what, errno) => write!(answer, "{id} no {errno} {what}"),
            Failure::Status(what, errno, status) => write!(answer, "{id} no {errno} {what} status={status}"),
            Failure::Dlpi(what, reason) => write!(answer, "{id} no 71 {what} {reason}"),
            Failure::Words(why) => write!(answer, "{id} no 0 {why}"),
        };
    }
    let cut = answer.is_cut();
    let _ = write_all(to, answer.bytes());
    let _ = write_all(to, if cut { b" ...\n" } else { b"\n" });
}
