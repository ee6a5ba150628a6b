//! Streams, by the requests of DLPI.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use fakekernel::genunix::Cred;
use fakekernel::{Errno, Nanos};
use lab_gldv3::{
    DlpiError, LinkAddress, Notification, Offload, Promiscuity, ReceiveQueue, Stream, TransmitError,
};
use record::refusal;

use super::{Answer, Lab, number, of, unknown};

/// An open stream, and what has come on it.
pub(super) struct Opened {
    stream: Stream,
    packets: ReceiveQueue,
    notes: Arc<Mutex<Vec<Notification>>>,
    /// What it wants to be told (`DL_NOTE_*`).
    wanted: u32,
    /// Why the last packet was not taken.
    refused: Option<&'static str>,
}

/// `ETIME` of `sys/errno.h`: nothing came.
const ETIME: Errno = Errno(62);
/// What a link needs to come up, at most.
const UP: Nanos = Nanos::from_millis(100);
/// A command that no driver has.
const NO_COMMAND: i32 = 0x7f01;

fn of_dlpi(error: DlpiError) -> String {
    match error {
        DlpiError::System(errno) => of(errno),
        other => refusal(0, &other.to_string()),
    }
}

fn hex(address: &LinkAddress) -> String {
    address.0.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn address(digits: &str) -> LinkAddress {
    let octet = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal digits");
    LinkAddress(std::array::from_fn(octet))
}

impl Lab<'_> {
    pub(super) fn open_or_close(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["open", path] => {
                let link = path.strip_prefix("/dev/net/").expect("a link");
                let stream = Stream::open(&self.host.kernel, link).map_err(of)?;
                // A program of a real machine asks later than a link needs to come up.
                fakekernel::sleep(UP);
                let packets = stream.receive_queue(16);
                let opened = Opened { stream, packets, notes: Arc::default(), wanted: 0, refused: None };
                self.streams.push(Some(opened));
                Ok(format!("fd={}", self.streams.len() - 1))
            }
            ["close", fd] => {
                drop(self.streams[number(fd) as usize].take());
                Ok(String::new())
            }
            _ => unknown(words),
        }
    }

    pub(super) fn about_a_stream(&mut self, words: &[&str]) -> Answer {
        let opened = self.streams[number(words[1]) as usize].as_mut().expect("it is open");
        if !["dl-send", "dl-receive", "dl-notes"].contains(&words[0]) {
            // Whoever waits for an answer passes over what was told before it.
            opened.notes.lock().expect("not poisoned").clear();
        }
        match *words {
            ["dl-send", _, to, sap, size, _] => Ok(opened.send(to, sap, size)),
            ["dl-receive", _, milliseconds] => opened.receive(milliseconds),
            ["dl-notify", _] => Ok(opened.notify(u32::MAX)),
            ["dl-notify", _, mask] => Ok(opened.notify(number(mask))),
            // How many are waited for says when a kernel has told all; here time costs nothing.
            ["dl-notes", _, milliseconds] | ["dl-notes", _, milliseconds, _] => {
                fakekernel::sleep(Nanos::from_millis(number(milliseconds).into()));
                Ok(opened.told())
            }
            _ => request(&opened.stream, words),
        }
    }
}

/// A request with an answer.
fn request(stream: &Stream, words: &[&str]) -> Answer {
    let done = |outcome: Result<(), DlpiError>| outcome.map(|()| String::new()).map_err(of_dlpi);
    let details = stream.details();
    match *words {
        ["dl-bind", _, sap] => {
            stream.bind(number(sap)).map_err(of_dlpi)?;
            Ok(format!("address={}", hex(&stream.details().address)))
        }
        ["dl-unbind", _] => done(stream.unbind()),
        ["dl-passive", _] => done(stream.make_passive()),
        ["dl-info", _] => Ok(format!(
            "sdu={} media={} state={} broadcast={} least={} address={}",
            details.max_sdu,
            details.media,
            if stream.is_bound() { 3 } else { 0 },
            hex(&details.broadcast),
            details.min_sdu,
            // With the SAP.
            details.address_length + 2,
        )),
        ["dl-address", _] => Ok(format!("address={}", hex(&details.address))),
        ["dl-address", _, "factory"] => Ok(format!("address={}", hex(&details.factory_address))),
        ["dl-set-address", _, to] => done(stream.set_address(address(to))),
        ["dl-group", _, group, "on"] => done(stream.enable_multicast(address(group))),
        ["dl-group", _, group, "off"] => done(stream.disable_multicast(address(group))),
        ["dl-promisc", _, level, on] => {
            let level = match level {
                "phys" => Promiscuity::Physical,
                "sap" => Promiscuity::Sap,
                _ => Promiscuity::Multicast,
            };
            done(stream.set_promiscuous(level, on == "on"))
        }
        ["dl-raw", _] => stream.set_raw().map(|()| String::new()).map_err(of),
        ["dl-ioctl", _] => stream.ioctl(Cred::ROOT, NO_COMMAND, &[0; 4]).map(|_| String::new()).map_err(of),
        _ => unknown(words),
    }
}

impl Opened {
    fn send(&mut self, to: &str, sap: &str, size: &str) -> String {
        let sap = u16::try_from(number(sap)).expect("a SAP");
        let payload = vec![0; number(size) as usize];
        let outcome = self.stream.transmit_as(sap, address(to), &payload, Offload::default());
        self.refused = match outcome {
            Ok(_) => None,
            Err(TransmitError::NotBound) => Some("DL_OUTSTATE"),
            Err(TransmitError::TooLarge(_)) => Some("DL_BADDATA"),
            Err(TransmitError::NoMemory) => Some("DL_BADADDR"),
        };
        "sent=1".to_owned()
    }

    fn receive(&mut self, milliseconds: &str) -> Answer {
        if let Some(reason) = self.refused.take() {
            return Ok(format!("refused={reason} errno=0"));
        }
        fakekernel::sleep(Nanos::from_millis(number(milliseconds).into()));
        self.packets
            .try_next()
            .map(|packet| format!("packet length={}", packet.payload.len()))
            .ok_or_else(|| of(ETIME))
    }

    fn notify(&mut self, wanted: u32) -> String {
        self.wanted = wanted;
        let notes = Arc::clone(&self.notes);
        self.stream.on_notify(move |note| notes.lock().expect("not poisoned").push(note));
        String::new()
    }

    /// What it was told since, with what DLPI calls it.
    fn told(&self) -> String {
        let notes = std::mem::take(&mut *self.notes.lock().expect("not poisoned"));
        let mut text = String::new();
        for (kind, said) in notes.iter().flat_map(in_words) {
            if self.wanted & kind != 0 {
                // Writing to a String cannot fail.
                let _ = write!(text, " {said}");
            }
        }
        text
    }
}

/// The kinds of `DL_NOTIFY_IND` that a notification is (`DL_NOTE_*`), each with what it says.
fn in_words(note: &Notification) -> Vec<(u32, String)> {
    let plain = |kind: u32, name: &str| vec![(kind, format!("{name}:0"))];
    match note {
        Notification::LinkUp { speed } => {
            vec![(0x10, "link-up:0".to_owned()), (0x100, format!("speed:{}", speed / 1000))]
        }
        Notification::LinkDown => plain(0x8, "link-down"),
        // 2 is the address in use.
        Notification::Address(address) => vec![(0x1, format!("phys-addr:2:{}", hex(address)))],
        Notification::Sdu { max, multicast } => vec![(0x2000, format!("sdu-size2:{max}:{multicast}"))],
        Notification::Promiscuous(true) => plain(0x2, "promisc-on"),
        Notification::Promiscuous(false) => plain(0x4, "promisc-off"),
        Notification::Capabilities => plain(0x400, "capab-reneg"),
        Notification::FastpathFlush => plain(0x200, "fastpath-flush"),
        Notification::AllowedIps => plain(0x1000, "allowed-ips"),
        Notification::Writable => Vec::new(),
    }
}
