//! The words a process understands. Each group has a module; `metal shell` explains them.

mod dlpi;
mod ip;
mod kstats;
mod links;
mod traffic;
mod zones;

use core::ffi::CStr;
use core::fmt::Write as _;

use crate::abi::devinfo::{self, Snapshot};
use crate::abi::text;
use crate::answer::{Answer, Text};
use crate::packet::Family;
use crate::router::CONSOLE;
use crate::sys::files::{Open, close, devices, lay_over, names, open, write_all};
use crate::sys::{self, Errno, Fd, now};
use crate::words::{Unreadable, Words};

/// Why a command was not done.
pub enum Failure {
    /// A call that was refused: which, and its errno.
    Call(&'static str, Errno),
    /// The same, with a reason of the driver's beside it.
    Status(&'static str, Errno, u32),
    /// A refusal of DLPI's, by the name of its reason.
    Dlpi(&'static str, &'static str),
    /// What was asked cannot be read, or what came cannot be understood.
    Words(&'static str),
}

/// What a command gives; the answer is written on the way.
pub type Outcome = Result<(), Failure>;

impl From<Unreadable> for Failure {
    fn from(Unreadable(why): Unreadable) -> Self {
        Self::Words(why)
    }
}

/// Names the call in its failure.
pub trait Named<T> {
    /// The same, with the call's name.
    ///
    /// # Errors
    ///
    /// The call failed.
    fn named(self, call: &'static str) -> Result<T, Failure>;
}

impl<T> Named<T> for sys::Result<T> {
    fn named(self, call: &'static str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::Call(call, errno))
    }
}

/// A path as the kernel takes it.
pub struct Path(Text<256>);

impl Path {
    /// `text` with a zero behind it.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn new(text: &str) -> Result<Self, Failure> {
        let mut path = Text::of(text);
        path.push(&[0]);
        if path.is_cut() { Err(Failure::Words("a path is too long")) } else { Ok(Self(path)) }
    }

    /// As the kernel takes it.
    pub fn c(&self) -> &CStr {
        CStr::from_bytes_until_nul(self.0.bytes()).unwrap_or_default()
    }
}

/// Does one command.
///
/// # Errors
///
/// It cannot be read, or a call failed.
pub fn run(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    match words.word()? {
        "hello" => Ok(()),
        "say" => say(words.rest()),
        "sleep" => traffic::pause(words),
        "suspend" => suspend(),
        "suspend-devices" => suspend_devices(),
        "load" => load(words, answer),
        "unload" => unload(words),
        "lay-over" => lay_over_directory(words),
        "read-conf" => read_conf(),
        "modules" => modules(answer),
        "list" => list(words, answer),
        "nodes" => nodes(words, answer),
        "open" => dlpi::open_device(words, answer),
        "close" => close_descriptor(words, answer),
        "sockets" => ip::sockets(),
        word => run_on_links(word, words, answer),
    }
}

/// Words about links and what is on them.
fn run_on_links(word: &str, words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    match word {
        "dls-start" => links::start_dls(),
        "dls-names" => links::name_partitions(words),
        "part-create" => links::partition(words, answer, true),
        "part-delete" => links::partition(words, answer, false),
        "part-info" => links::partition_information(words, answer),
        "port-info" => links::port_information(words, answer),
        "prop-default" => links::property_default(words, answer),
        "prop-possible" => links::property_values(words, answer),
        "prop-get" => links::get_property(words, answer),
        "prop-set" => links::set_property(words),
        "prop-zone" => links::set_zone(words),
        "adapter" => links::adapter(words, answer),
        "dl-bind" => dlpi::bind(words, answer),
        "dl-unbind" => dlpi::unbind(words),
        "dl-address" => dlpi::address(words, answer),
        "dl-set-address" => dlpi::set_address(words),
        "dl-passive" => dlpi::passive(words),
        "dl-ioctl" => dlpi::unknown_ioctl(words),
        "dl-notes" => dlpi::notes(words, answer),
        "dl-info" => dlpi::info(words, answer),
        "dl-raw" => dlpi::raw(words),
        "dl-promisc" => dlpi::promiscuous(words),
        "dl-group" => dlpi::group(words),
        "dl-notify" => dlpi::notify(words, answer),
        "dl-send" => dlpi::send(words, answer),
        "dl-receive" => dlpi::receive(words, answer),
        "dl-count" => dlpi::count(words, answer),
        "kstats" => kstats::list(words, answer),
        "kstat-form" => kstats::form(words, answer),
        "kstat" => kstats::values(words, answer),
        "memory" => kstats::memory(answer),
        word => run_on_ip(word, words, answer),
    }
}

/// Words about IP and zones.
fn run_on_ip(word: &str, words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    match word {
        "plumb" => ip::plumb(words),
        "unplumb" => ip::unplumb(words),
        "address" => ip::address(words),
        "up" => ip::set_up(words, true),
        "down" => ip::set_up(words, false),
        "interface" => ip::show(words, answer),
        "ping4" => traffic::ping(words, answer, Family::V4),
        "ping6" => traffic::ping(words, answer, Family::V6),
        "reach4" => traffic::reach(words, answer, Family::V4),
        "reach6" => traffic::reach(words, answer, Family::V6),
        "ping-paced" => traffic::paced(words, answer),
        "tcp-listen" => traffic::tcp_listen(words, answer),
        "tcp-receive" => traffic::tcp_receive(words, answer),
        "tcp-send" => traffic::tcp_send(words, answer),
        "udp-open" => traffic::udp_open(words, answer),
        "udp-member" => traffic::udp_member(words),
        "udp-send" => traffic::udp_send(words),
        "udp-receive" => traffic::udp_receive(words, answer),
        "zone-create" => zones::create(words, answer),
        "zone-link" => zones::link(words),
        "zone-shutdown" => zones::shut_down(words),
        "zone-destroy" => zones::destroy(words),
        "enter" => zones::enter(words),
        "node" => zones::node(words),
        _ => Err(Failure::Words("no such word")),
    }
}

pub use links::serve_dls;

/// `close FD`: and how long that took.
fn close_descriptor(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let began = now();
    close(Fd(words.number::<u16>()?.into())).named("close")?;
    let _ = write!(answer, " us={}", now() - began);
    Ok(())
}

/// `suspend`: would the machine suspend to memory?
fn suspend() -> Outcome {
    sys::check_suspend().named("uadmin")?;
    Ok(())
}

/// `suspend-devices`: all devices are suspended and resumed.
fn suspend_devices() -> Outcome {
    sys::suspend_devices().named("uadmin")?;
    Ok(())
}

fn say(what: &str) -> Outcome {
    let console = open(CONSOLE, Open::Write).named("open")?;
    let mut line = Text::<512>::default();
    // Writing to a Text cannot fail.
    let _ = writeln!(line, "{what}");
    let written = write_all(console, line.bytes()).named("write");
    let _ = close(console);
    written
}

fn load(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let id = sys::load(Path::new(words.word()?)?.c()).named("modload")?;
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " id={id}");
    Ok(())
}

/// Unloads a module by its name.
fn unload(words: &mut Words<'_>) -> Outcome {
    let name = words.word()?;
    let mut previous = None;
    while let Ok(info) = sys::module_after(previous) {
        if text(&info.name) == name {
            sys::unload(info.id).named("modunload")?;
            return Ok(());
        }
        previous = Some(info.id);
    }
    Err(Failure::Call("modinfo", Errno(2)))
}

/// `lay-over FROM DIRECTORY`.
fn lay_over_directory(words: &mut Words<'_>) -> Outcome {
    let (from, over) = (Path::new(words.word()?)?, Path::new(words.word()?)?);
    lay_over(from.c(), over.c()).named("mount")?;
    Ok(())
}

/// `read-conf`.
fn read_conf() -> Outcome {
    sys::read_conf().named("modctl")?;
    Ok(())
}

fn modules(answer: &mut Answer) -> Outcome {
    let mut previous = None;
    while let Ok(info) = sys::module_after(previous) {
        let _ = write!(answer, " {}={}:{:x}+{:x}", text(&info.name), info.id, info.base, info.size);
        previous = Some(info.id);
    }
    Ok(())
}

/// `nodes PATH`: what is known of each node below a device: `/adapter@0,0`, without `/devices`.
fn nodes(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let path = Path::new(words.word()?)?;
    let tree = open(Path::new(devinfo::DEVICE)?.c(), Open::Read).named("open devinfo")?;
    let mut room = [0; 1 << 18];
    let taken = devices(tree, path.c(), &mut room).named("devinfo");
    let _ = close(tree);
    for node in Snapshot::top(taken?).into_iter().flat_map(|top| top.children()) {
        // Writing to a Text cannot fail, here and below.
        let _ = write!(
            answer,
            " {}@{} instance={} binding={}",
            node.name(),
            node.address(),
            node.instance(),
            node.binding()
        );
        for name in node.compatible() {
            let _ = write!(answer, " compatible={name}");
        }
        for (name, kind, length) in node.properties() {
            let _ = write!(answer, " property={name}:{kind}:{length}");
        }
        for (name, kind) in node.minors() {
            let _ = write!(answer, " minor={name}:{kind}");
        }
    }
    Ok(())
}

fn list(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let path = Path::new(words.word()?)?;
    let listed = names(path.c(), |name| {
        if name != b"." && name != b".." {
            answer.push(b" ");
            answer.push(name);
        }
    });
    listed.named("getdents")
}
