//! The first process: it reads commands from the serial line, hands each to the process it names, and passes the answers on.

use core::ffi::CStr;
use core::fmt::Write as _;

use crate::abi::system::{HUNG_UP, Poll, READABLE, Termios};
use crate::answer::{Lines, Text};
use crate::sys::files::{Open, close, names, open, pipe, read, write_all};
use crate::sys::{Fd, Plain, Result, SET_TERMIOS, collect, exit, fork, plain, poll, power_off, sleep};
use crate::words::{Line, line};
use crate::worker;

/// The kernel's console.
pub const CONSOLE: &CStr = c"/devices/pseudo/cn@0:console";

/// Where a second serial port may be, depending on what the machine's firmware says of its bus.
const PORTS: [&CStr; 4] = [
    c"/devices/pci@0,0/isa@1/asy@1,2f8:b",
    c"/devices/isa/asy@1,2f8:b",
    c"/devices/pci@0,0/isa@1f/asy@1,2f8:b",
    c"/devices/isa@1/asy@1,2f8:b",
];

/// How many processes there can be at once.
const PROCESSES: usize = 12;

/// A process that does what it is told.
struct Process {
    name: Text<16>,
    /// As the kernel numbers it.
    number: u32,
    commands: Fd,
    answers: Fd,
    /// The command that it has not answered yet.
    pending: Option<u32>,
}

struct Router {
    port: Fd,
    processes: [Option<Process>; PROCESSES],
}

/// Runs for ever, or until it is told to switch the machine off.
pub fn run() -> ! {
    let Some(port) = control_port() else {
        complain("no second serial port: these are the devices");
        show_devices();
        power_off()
    };
    let mut router = Router { port, processes: [const { None }; PROCESSES] };
    if router.spawn("0").is_err() {
        complain("cannot start a process");
        power_off()
    }
    router.send(format_args!("0 ok metal-agent 1"));
    router.serve()
}

/// A contract that nobody gives up outlives its processes, and the kernel's memory for it.
fn abandon_contracts() {
    let mut control = Text::<64>::default();
    let _ = names(c"/system/contract/process", |name| {
        if !name.first().is_some_and(u8::is_ascii_digit) {
            return;
        }
        control.clear();
        for part in [b"/system/contract/process/".as_slice(), name, b"/ctl\0"] {
            control.push(part);
        }
        let path = CStr::from_bytes_until_nul(control.bytes()).unwrap_or_default();
        if let Ok(contract) = open(path, Open::Write) {
            let _ = plain(contract, Plain::AbandonContract, 0);
            let _ = close(contract);
        }
    });
}

/// A line on the console.
fn complain(what: &str) {
    if let Ok(console) = open(CONSOLE, Open::Write) {
        let mut text = Text::<256>::default();
        // Writing to a Text cannot fail.
        let _ = writeln!(text, "metal-agent: {what}");
        let _ = write_all(console, text.bytes());
        let _ = close(console);
    }
}

fn show_devices() {
    for directory in [c"/devices", c"/devices/pci@0,0", c"/devices/pci@0,0/isa@1", c"/devices/isa"] {
        let _ = names(directory, |name| complain(core::str::from_utf8(name).unwrap_or("?")));
    }
}

fn control_port() -> Option<Fd> {
    let port = PORTS.iter().find_map(|path| open(path, Open::Both).ok())?;
    SET_TERMIOS.call(port, &mut Termios::raw()).ok()?;
    Some(port)
}

impl Router {
    fn serve(&mut self) -> ! {
        let mut lines = Lines::<4096>::default();
        let mut buffer = [0; 4096];
        loop {
            let mut polls = [Poll { fd: -1, events: READABLE, found: 0 }; PROCESSES + 1];
            polls[PROCESSES].fd = self.port.0;
            for (poll, process) in polls.iter_mut().zip(&self.processes) {
                poll.fd = process.as_ref().map_or(-1, |process| process.answers.0);
            }
            if poll(&mut polls, 60_000).is_err() {
                sleep(10);
                continue;
            }
            for (index, poll) in polls[..PROCESSES].iter().enumerate() {
                if poll.found & (READABLE | HUNG_UP) != 0 {
                    self.pass_on(index, &mut buffer);
                }
            }
            if polls[PROCESSES].found & READABLE != 0 {
                let length = read(self.port, &mut buffer).unwrap_or(0);
                lines.feed(&buffer[..length.min(4096)], |text| self.take(text));
            }
        }
    }

    /// Passes on what a process says, up to the end of a line: what another one says does not belong into it.
    fn pass_on(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(process) = &mut self.processes[index] else { return };
        loop {
            match read(process.answers, buffer) {
                Ok(length @ 1..) => {
                    let _ = write_all(self.port, &buffer[..length]);
                    if buffer[..length].ends_with(b"\n") {
                        process.pending = None;
                        return;
                    }
                }
                _ => return self.bury(index),
            }
        }
    }

    /// Forgets a process that has ended, and answers what it left unanswered.
    fn bury(&mut self, index: usize) {
        if let Some(process) = self.processes[index].take() {
            let _ = close(process.commands);
            let _ = close(process.answers);
            if let Some(id) = process.pending {
                self.send(format_args!("{id} no 0 the process has ended"));
            }
            collect(process.number);
        }
    }

    /// Ends a process by closing its commands, and waits until it has closed its answers.
    fn end(&mut self, name: &str) {
        let named =
            |process: &Option<Process>| process.as_ref().is_some_and(|process| process.name.text() == name);
        let Some(index) = self.processes.iter().position(named) else { return };
        let Some(process) = self.processes[index].take() else { return };
        let _ = close(process.commands);
        let mut rest = [0; 64];
        while matches!(read(process.answers, &mut rest), Ok(1..)) {}
        let _ = close(process.answers);
        // What it had open is closed last, and what a zone waits for is not over before that.
        collect(process.number);
    }

    fn send(&mut self, line: core::fmt::Arguments<'_>) {
        let mut text = Text::<512>::default();
        // Writing to a Text cannot fail.
        let _ = writeln!(text, "{line}");
        let _ = write_all(self.port, text.bytes());
    }

    /// Does a command of its own, or hands it on.
    fn take(&mut self, text: &str) {
        let Some(Line { id, process, rest }) = line(text) else { return };
        if process != "router" {
            return self.hand_on(id, process, rest);
        }
        match rest.split_once(' ').unwrap_or((rest, "")) {
            ("hello", _) => self.send(format_args!("{id} ok metal-agent 1")),
            ("spawn", name) => match self.spawn(name) {
                Ok(()) => self.send(format_args!("{id} ok")),
                Err(e) => self.send(format_args!("{id} no {e} cannot start a process")),
            },
            ("end", name) => {
                self.end(name);
                self.send(format_args!("{id} ok"));
            }
            ("off", _) => {
                self.send(format_args!("{id} ok"));
                // The last octets leave the port before the machine does.
                sleep(100);
                power_off()
            }
            _ => self.send(format_args!("{id} no 0 what is {rest}?")),
        }
    }

    fn hand_on(&mut self, id: u32, name: &str, rest: &str) {
        let found = self.processes.iter_mut().flatten().find(|process| process.name.text() == name);
        let Some(process) = found else { return self.send(format_args!("{id} no 0 no process {name}")) };
        let mut text = Text::<4096>::default();
        // Writing to a Text cannot fail.
        let _ = writeln!(text, "{id} {rest}");
        process.pending = Some(id);
        if write_all(process.commands, text.bytes()).is_err() {
            self.send(format_args!("{id} no 0 the process {name} takes no commands"));
        }
    }

    /// Starts a process, in a contract of its own where that is possible: only so can it enter a zone.
    fn spawn(&mut self, name: &str) -> Result<()> {
        let free = self.processes.iter().position(Option::is_none).ok_or(crate::sys::Errno(11))?;
        let (command_end, commands) = pipe()?;
        let (answers, answer_end) = pipe()?;
        let template = open(c"/system/contract/process/template", Open::Both);
        if let Ok(template) = template {
            let _ = plain(template, Plain::ActivateTemplate, 0);
        }
        let Some(number) = fork()? else {
            for process in self.processes.iter().flatten() {
                let _ = close(process.commands);
                let _ = close(process.answers);
            }
            for fd in [self.port, commands, answers] {
                let _ = close(fd);
            }
            if let Ok(template) = template {
                let _ = close(template);
            }
            worker::run(command_end, answer_end);
            exit(0)
        };
        if let Ok(template) = template {
            let _ = plain(template, Plain::ClearTemplate, 0);
            let _ = close(template);
        }
        abandon_contracts();
        let _ = close(command_end);
        let _ = close(answer_end);
        self.processes[free] =
            Some(Process { name: Text::of(name), number, commands, answers, pending: None });
        Ok(())
    }
}
