//! Streams of the data-link provider interface, by their descriptors.

use core::fmt::Write as _;

use super::{Failure, Named as _, Outcome, Path};
use crate::abi::dlpi::{ADDRESS, ADDRESSES, Message, PROMISCUOUS, Request, note, reason};
use crate::abi::system::{Poll, READABLE};
use crate::answer::{Answer, Hex};
use crate::packet::{Sum, fill};
use crate::sys::files::{Open, open};
use crate::sys::{Errno, Fd, Plain, UNKNOWN, now, plain, poll, streams};
use crate::words::Words;

/// `ETIME`, of which poll knows nothing.
const TOO_LATE: Errno = Errno(62);

/// How long an answer to a request may take.
const PATIENCE: u64 = 60_000;

/// The largest packet, and what surrounds it.
const ROOM: usize = 66_000;

/// The largest control part: a note about allowed addresses has all of a `mac_protect_t`, and what does not fit comes as a message of
/// its own, before or after the next acknowledgement.
const CONTROL: usize = 16_384;

/// What has come on a stream.
struct Inbox {
    control: [u8; CONTROL],
    control_length: usize,
    data: [u8; ROOM],
    data_length: usize,
}

impl Inbox {
    fn new() -> Self {
        Self { control: [0; CONTROL], control_length: 0, data: [0; ROOM], data_length: 0 }
    }

    fn receive(&mut self, from: Fd, milliseconds: u64) -> Result<(), Errno> {
        let mut polls = [Poll { fd: from.0, events: READABLE, found: 0 }];
        if poll(&mut polls, milliseconds)? == 0 {
            return Err(TOO_LATE);
        }
        let (control, data) = streams::receive(from, &mut self.control, &mut self.data)?;
        (self.control_length, self.data_length) = (control.unwrap_or(0), data);
        Ok(())
    }

    fn message(&self) -> Message<'_> {
        Message::read(&self.control[..self.control_length])
    }

    fn data(&self) -> &[u8] {
        &self.data[..self.data_length]
    }
}

/// Sends a request and waits for its answer; packets and notes that come before it are dropped.
fn request(fd: Fd, what: &'static str, request: Request, inbox: &mut Inbox) -> Outcome {
    streams::send(fd, request.bytes(), None).named(what)?;
    loop {
        inbox.receive(fd, PATIENCE).named(what)?;
        match inbox.message() {
            Message::Packet { .. } | Message::Note { .. } => {}
            Message::Other(0) if inbox.control_length == 0 => {}
            Message::Error(4, errno) => return Err(Failure::Call(what, Errno(errno))),
            Message::Error(error, _) => return Err(Failure::Dlpi(what, reason(error))),
            _ => return Ok(()),
        }
    }
}

/// Another message than the answer came: its number (`sys/dlpi.h`) is the status. `EPROTO`.
fn unexpected(what: &'static str, inbox: &Inbox) -> Failure {
    let number = inbox.control.first_chunk().map_or(0, |octets| u32::from_ne_bytes(*octets));
    Failure::Status(what, Errno(71), number)
}

fn fd(words: &mut Words<'_>) -> Result<Fd, Failure> {
    Ok(Fd(words.number::<u16>()?.into()))
}

/// `open PATH`: a descriptor that stays open.
pub fn open_device(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let began = now();
    let fd = open(Path::new(words.word()?)?.c(), Open::Both).named("open")?;
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " fd={} us={}", fd.0, now() - began);
    Ok(())
}

/// `dl-bind FD SAP`: the address that the acknowledgement tells.
pub fn bind(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, began) = (fd(words)?, now());
    let mut inbox = Inbox::new();
    request(fd, "DL_BIND_REQ", Request::bind(words.number()?), &mut inbox)?;
    let address = match inbox.message() {
        Message::Address(address) => address,
        _ => return Err(unexpected("DL_BIND_REQ", &inbox)),
    };
    let address = address.get(..ADDRESS).unwrap_or(address);
    let _ = write!(answer, " address={} us={}", Hex(address), now() - began);
    Ok(())
}

/// `dl-unbind FD`.
pub fn unbind(words: &mut Words<'_>) -> Outcome {
    request(fd(words)?, "DL_UNBIND_REQ", Request::unbind(), &mut Inbox::new())
}

/// `dl-address FD [current|factory|destination]`: an address of the link's, the one in use unless another is asked for.
pub fn address(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, mut inbox) = (fd(words)?, Inbox::new());
    let which = words.maybe().unwrap_or("current");
    let known = ADDRESSES.iter().find(|(name, _)| *name == which);
    let &(_, which) = known.ok_or(Failure::Words("current, factory or destination?"))?;
    request(fd, "DL_PHYS_ADDR_REQ", Request::address(which), &mut inbox)?;
    let Message::Address(address) = inbox.message() else {
        return Err(Failure::Words("no DL_PHYS_ADDR_ACK"));
    };
    let _ = write!(answer, " address={}", Hex(address));
    Ok(())
}

/// `dl-info FD`.
pub fn info(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut inbox = Inbox::new();
    request(fd(words)?, "DL_INFO_REQ", Request::info(), &mut inbox)?;
    let Message::Info {
        max_sdu,
        min_sdu,
        address_length,
        sap_length,
        service,
        style,
        media,
        state,
        broadcast,
    } = inbox.message()
    else {
        return Err(Failure::Words("no DL_INFO_ACK"));
    };
    let _ = write!(answer, " sdu={max_sdu} media={media} state={state} broadcast={}", Hex(broadcast));
    let _ = write!(answer, " least={min_sdu} address={address_length} sap={sap_length}");
    let _ = write!(answer, " service={service} style={style:#x}");
    Ok(())
}

/// `dl-set-address FD ADDRESS`.
pub fn set_address(words: &mut Words<'_>) -> Outcome {
    let (fd, address) = (fd(words)?, words.hex()?);
    request(fd, "DL_SET_PHYS_ADDR_REQ", Request::set_address(&address), &mut Inbox::new())
}

/// `dl-passive FD`: the stream does not count as a user of the link's address.
pub fn passive(words: &mut Words<'_>) -> Outcome {
    request(fd(words)?, "DL_PASSIVE_REQ", Request::passive(), &mut Inbox::new())
}

/// `dl-ioctl FD`: a command that no driver has.
pub fn unknown_ioctl(words: &mut Words<'_>) -> Outcome {
    streams::control(fd(words)?, &UNKNOWN, &mut 0).named("I_STR")?;
    Ok(())
}

/// `dl-raw FD`: what is sent and received has the link's header.
pub fn raw(words: &mut Words<'_>) -> Outcome {
    plain(fd(words)?, Plain::Raw, 0).named("DLIOCRAW")?;
    Ok(())
}

/// `dl-promisc FD phys|sap|multi on|off`.
pub fn promiscuous(words: &mut Words<'_>) -> Outcome {
    let fd = fd(words)?;
    let level = words.word()?;
    let known = PROMISCUOUS.iter().find(|(name, _)| *name == level);
    let &(_, level) = known.ok_or(Failure::Words("phys, sap or multi?"))?;
    let on = words.word()? == "on";
    request(fd, "DL_PROMISC_REQ", Request::promiscuous(level, on), &mut Inbox::new())
}

/// `dl-group FD ADDRESS on|off`.
pub fn group(words: &mut Words<'_>) -> Outcome {
    let (fd, address) = (fd(words)?, words.hex()?);
    let on = words.word()? == "on";
    request(fd, "DL_ENABMULTI_REQ", Request::group(&address, on), &mut Inbox::new())
}

/// `dl-notify FD [MASK]`: the stream tells what happens to the link; what it can tell.
pub fn notify(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, mut inbox) = (fd(words)?, Inbox::new());
    request(fd, "DL_NOTIFY_REQ", Request::notify(words.number_or(u32::MAX)?), &mut inbox)?;
    let Message::Notes(mask) = inbox.message() else { return Err(Failure::Words("no DL_NOTIFY_ACK")) };
    let _ = write!(answer, " notes={mask:#x}");
    Ok(())
}

/// `dl-notes FD MS [COUNT]`: what the stream tells until it has told nothing for so long, or so much, in order; packets are dropped.
pub fn notes(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, milliseconds, enough): (_, _, u32) = (fd(words)?, words.number()?, words.number_or(u32::MAX)?);
    let (mut inbox, mut told) = (Inbox::new(), 0);
    while told < enough && inbox.receive(fd, milliseconds).is_ok() {
        if let Message::Note { what, data, address } = inbox.message() {
            told += 1;
            let _ = match note(what) {
                // Two sizes in one word: of packets to one, and to a group.
                "sdu-size2" => write!(answer, " sdu-size2:{}:{}", data & 0xffff, data >> 16),
                name => write!(answer, " {name}:{data}"),
            };
            // Which addresses are allowed is no address.
            if !address.is_empty() && address.len() < 64 {
                let _ = write!(answer, ":{}", Hex(address));
            }
        }
    }
    Ok(())
}

/// `dl-send FD ADDRESS SAP SIZE SEED [COUNT]`: packets whose data follows from the seed.
pub fn send(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, address, sap) = (fd(words)?, words.hex()?, words.number()?);
    let (size, seed, count): (usize, u32, u32) = (words.number()?, words.number()?, words.number_or(1)?);
    let mut data = [0; ROOM];
    let packet = data.get_mut(..size).ok_or(Failure::Words("that is too large"))?;
    for index in 0..count {
        fill(packet, seed.wrapping_add(index));
        streams::send(fd, Request::data(&address, sap).bytes(), Some(packet)).named("putmsg")?;
    }
    let mut sum = Sum::default();
    sum.add(packet);
    let _ = write!(answer, " sent={count} sum={:x}", sum.0);
    Ok(())
}

/// `dl-receive FD MS`: the next packet or note, with the beginning of its data.
pub fn receive(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, milliseconds) = (fd(words)?, words.number()?);
    let mut inbox = Inbox::new();
    inbox.receive(fd, milliseconds).named("getmsg")?;
    let _ = match inbox.message() {
        Message::Packet { to, from, group } => {
            write!(answer, " packet to={} from={} group={}", Hex(to), Hex(from), u8::from(group))
        }
        Message::Note { what, data, address } => {
            write!(answer, " note={} data={data} address={}", note(what), Hex(address))
        }
        Message::NotSent(error, errno) | Message::Error(error, errno) => {
            let _ = write!(answer, " refused={} errno={errno}", reason(error));
            return Ok(());
        }
        Message::Other(_) if inbox.control_length == 0 => write!(answer, " raw"),
        _ => write!(answer, " other"),
    };
    let mut sum = Sum::default();
    sum.add(inbox.data());
    let begin = inbox.data().get(..96).unwrap_or(inbox.data());
    let _ = write!(answer, " length={} sum={:x} begin={}", inbox.data().len(), sum.0, Hex(begin));
    Ok(())
}

/// `dl-count FD MS`: how many packets come until none has come for so long.
pub fn count(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (fd, milliseconds) = (fd(words)?, words.number()?);
    let (mut packets, mut octets, mut notes) = (0_u64, 0_u64, 0_u64);
    let mut inbox = Inbox::new();
    while inbox.receive(fd, milliseconds).is_ok() {
        match inbox.message() {
            Message::Note { .. } => notes += 1,
            _ => (packets, octets) = (packets + 1, octets + inbox.data().len() as u64),
        }
    }
    let _ = write!(answer, " packets={packets} octets={octets} notes={notes}");
    Ok(())
}
