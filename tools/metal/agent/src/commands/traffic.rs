//! What goes over IP: echoes, streams, datagrams to groups.

use core::fmt::Write as _;

use super::{Failure, Named as _, Outcome};
use crate::abi::ip::{Address, INET, INET6};
use crate::abi::system::{Poll, READABLE};
use crate::answer::Answer;
use crate::packet::{ECHO_HEADER, Echo, Family, Numbers, Sum, fill, is_filled};
use crate::sys::files::{close, read, write_all};
use crate::sys::sockets::{Kind, accept, bind, connect, do_not_wait, listen, receive, send_to, set, socket};
use crate::sys::{Fd, now, poll, sleep};
use crate::words::Words;

const ROOM: usize = 66_000;
const SOL_SOCKET: usize = 0xffff;
const SO_RCVBUF: usize = 0x1002;
const SO_REUSEADDR: usize = 4;

/// Whether something can be read within the time.
fn readable(fd: Fd, milliseconds: u64) -> bool {
    let mut polls = [Poll { fd: fd.0, events: READABLE, found: 0 }];
    poll(&mut polls, milliseconds).is_ok_and(|found| found > 0)
}

/// Where echoes go, and what came of them.
struct Pinger {
    socket: Fd,
    to: Address,
    family: Family,
    identifier: u16,
    sequence: u16,
    sent: u32,
    refused: u32,
    answered: u32,
    wrong: u32,
    /// Sizes of the first echoes that were lost.
    lost: [u32; 8],
    times: [u64; 3],
}

impl Pinger {
    fn new(family: Family, to: Address) -> Result<Self, Failure> {
        let (domain, protocol) = if family == Family::V4 { (INET, 1) } else { (INET6, 58) };
        let socket = socket(domain, Kind::Raw, protocol).named("raw socket")?;
        do_not_wait(socket).named("fcntl")?;
        set(socket, SOL_SOCKET, SO_RCVBUF, &(1_u32 << 18).to_ne_bytes()).named("SO_RCVBUF")?;
        // Two pingers of one zone see each other's answers.
        let identifier = (now() >> 4) as u16;
        Ok(Self {
            socket,
            to,
            family,
            identifier,
            sequence: 0,
            sent: 0,
            refused: 0,
            answered: 0,
            wrong: 0,
            lost: [0; 8],
            times: [u64::MAX, 0, 0],
        })
    }

    fn next(&mut self) -> Echo {
        self.sequence = self.sequence.wrapping_add(1);
        Echo { family: self.family, identifier: self.identifier, sequence: self.sequence }
    }

    /// One echo; waits for its answer.
    fn one(&mut self, size: usize, milliseconds: u64, packet: &mut [u8]) -> Outcome {
        let echo = self.next();
        let length = echo.request(size, packet).ok_or(Failure::Words("that is too large"))?;
        let began = now();
        self.sent += 1;
        if send_to(self.socket, &packet[..length], &self.to).is_err() {
            self.refused += 1;
        }
        loop {
            let passed = (now() - began) / 1000;
            if passed >= milliseconds || !readable(self.socket, milliseconds - passed) {
                break;
            }
            let Ok(got) = receive(self.socket, packet) else { continue };
            match echo.answered_by(&packet[..got], size) {
                Some(true) => {
                    self.took(now() - began);
                    return Ok(());
                }
                Some(false) => self.wrong += 1,
                None => continue,
            }
            break;
        }
        if let Some(place) = self.lost.get_mut((self.sent - self.answered - 1) as usize) {
            *place = size as u32;
        }
        Ok(())
    }

    fn took(&mut self, microseconds: u64) {
        self.answered += 1;
        let [least, total, most] = self.times;
        self.times = [least.min(microseconds), total + microseconds, most.max(microseconds)];
    }

    fn report(&self, answer: &mut Answer) {
        let (sent, answered) = (self.sent, self.answered);
        // Writing to a Text cannot fail, here and below.
        let _ =
            write!(answer, " sent={sent} answered={answered} wrong={} refused={}", self.wrong, self.refused);
        if answered > 0 {
            let [least, total, most] = self.times;
            let _ =
                write!(answer, " least_us={least} mean_us={} most_us={most}", total / u64::from(answered));
        }
        for lost in self.lost.iter().take((sent - answered) as usize) {
            let _ = write!(answer, " lost={lost}");
        }
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        // Nothing can be done about it.
        let _ = close(self.socket);
    }
}

/// `ping4 ADDRESS` or `ping6 ADDRESS INTERFACE-INDEX`, then `FROM TO STEP EACH MS`: echoes of all these sizes, one after the other.
pub fn ping(words: &mut Words<'_>, answer: &mut Answer, family: Family) -> Outcome {
    let mut pinger = Pinger::new(family, destination(words, family, 0)?)?;
    let (from, to, step): (usize, usize, usize) = (words.number()?, words.number()?, words.number()?);
    let (each, milliseconds): (u32, u64) = (words.number()?, words.number()?);
    let mut packet = [0; ROOM];
    for size in (from..=to).step_by(step.max(1)) {
        for _ in 0..each {
            pinger.one(size, milliseconds, &mut packet)?;
        }
    }
    pinger.report(answer);
    Ok(())
}

/// `reach4 ADDRESS SIZE MS`, `reach6 ADDRESS INTERFACE-INDEX SIZE MS`: an echo every 250 ms until one is answered; when that was.
pub fn reach(words: &mut Words<'_>, answer: &mut Answer, family: Family) -> Outcome {
    let mut pinger = Pinger::new(family, destination(words, family, 0)?)?;
    let (size, milliseconds): (usize, u64) = (words.number()?, words.number()?);
    let (mut packet, began) = ([0; ROOM], now());
    while pinger.answered == 0 && (now() - began) / 1000 < milliseconds {
        pinger.one(size, 250, &mut packet)?;
    }
    pinger.report(answer);
    let _ = write!(answer, " ms={}", (now() - began) / 1000);
    Ok(())
}

fn destination(words: &mut Words<'_>, family: Family, port: u16) -> Result<Address, Failure> {
    Ok(match family {
        Family::V4 => Address::v4(words.ipv4()?, port),
        Family::V6 => Address::v6(words.ipv6()?, port, words.number()?),
    })
}

/// `ping-paced ADDRESS SIZE COUNT GAP-MS`: an echo every so often, whether or not the last was answered; what was lost and when.
pub fn paced(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut pinger = Pinger::new(Family::V4, destination(words, Family::V4, 0)?)?;
    let (size, count, gap): (usize, u16, u64) = (words.number()?, words.number()?, words.number()?);
    let (mut packet, mut seen) = ([0; ROOM], [false; 65_536]);
    let began = now();
    for turn in 0..u64::from(count) + 1000 / gap.max(1) {
        if turn < count.into() {
            let length =
                pinger.next().request(size, &mut packet).ok_or(Failure::Words("that is too large"))?;
            pinger.sent += 1;
            pinger.refused += u32::from(send_to(pinger.socket, &packet[..length], &pinger.to).is_err());
        } else if pinger.answered == u32::from(count) {
            break;
        }
        gather(&mut pinger, began + (turn + 1) * gap * 1000, &mut packet, &mut seen);
    }
    pinger.times = [0; 3];
    pinger.report(answer);
    holes(&seen[1..=usize::from(count)], gap, answer);
    Ok(())
}

/// Takes answers until that time.
fn gather(pinger: &mut Pinger, until: u64, packet: &mut [u8], seen: &mut [bool]) {
    while let Some(left) = until.checked_sub(now()).filter(|left| *left > 0) {
        if !readable(pinger.socket, left.div_ceil(1000)) {
            continue;
        }
        let Ok(got) = receive(pinger.socket, packet) else { continue };
        let header = usize::from(packet[0] & 15) * 4;
        let Some(icmp) = packet[..got].get(header..header + ECHO_HEADER) else { continue };
        let sequence = usize::from(u16::from_be_bytes([icmp[6], icmp[7]]));
        if icmp[0] == 0 && icmp[4..6] == pinger.identifier.to_be_bytes() && !seen[sequence] {
            seen[sequence] = true;
            pinger.answered += 1;
        }
    }
}

/// The longest time without an answer, and which echo was the first without one.
fn holes(seen: &[bool], gap: u64, answer: &mut Answer) {
    let longest = seen.split(|answered| *answered).map(<[bool]>::len).max().unwrap_or(0);
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " hole_ms={}", longest as u64 * gap);
    if let Some(first) = seen.iter().position(|answered| !answered) {
        let _ = write!(answer, " first_lost={}", first + 1);
    }
}

/// `tcp-listen PORT`: a socket that waits for connections, for `tcp-receive`.
pub fn tcp_listen(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let socket = socket(INET, Kind::Stream, 0).named("socket")?;
    set(socket, SOL_SOCKET, SO_REUSEADDR, &1_u32.to_ne_bytes()).named("SO_REUSEADDR")?;
    bind(socket, &Address::v4([0; 4], words.number()?)).named("bind")?;
    listen(socket).named("listen")?;
    let _ = write!(answer, " fd={}", socket.0);
    Ok(())
}

/// `tcp-receive FD`: takes one connection and all that comes over it.
pub fn tcp_receive(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let socket = Fd(words.number::<u16>()?.into());
    let connection = accept(socket).named("accept")?;
    let (mut sum, mut octets, began) = (Sum::default(), 0_u64, now());
    let mut buffer = [0; 65_536];
    let outcome = loop {
        match read(connection, &mut buffer).named("read") {
            Ok(0) => break Ok(()),
            Ok(got) => {
                sum.add(&buffer[..got]);
                octets += got as u64;
            }
            Err(failure) => break Err(failure),
        }
    };
    let _ = close(connection);
    let _ = close(socket);
    outcome?;
    let _ = write!(answer, " octets={octets} sum={:x} us={}", sum.0, now() - began);
    Ok(())
}

/// `tcp-send ADDRESS PORT OCTETS CHUNK SEED`: a stream whose octets follow from the seed.
pub fn tcp_send(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let to = words.ipv4()?;
    let to = Address::v4(to, words.number()?);
    let (octets, chunk, seed): (u64, usize, u32) = (words.number()?, words.number()?, words.number()?);
    let socket = socket(INET, Kind::Stream, 0).named("socket")?;
    let began = now();
    let outcome = send_stream(socket, &to, octets, chunk, seed);
    let _ = close(socket);
    let _ = write!(answer, " octets={octets} sum={:x} us={}", outcome?.0, now() - began);
    Ok(())
}

fn send_stream(socket: Fd, to: &Address, octets: u64, chunk: usize, seed: u32) -> Result<Sum, Failure> {
    connect(socket, to).named("connect")?;
    let (mut sum, mut numbers, mut buffer) = (Sum::default(), Numbers::new(seed), [0; 65_536]);
    let mut left = octets;
    while left > 0 {
        let length = chunk.clamp(1, buffer.len()).min(usize::try_from(left).unwrap_or(usize::MAX));
        buffer[..length].fill_with(|| numbers.octet());
        sum.add(&buffer[..length]);
        write_all(socket, &buffer[..length]).named("write")?;
        left -= length as u64;
    }
    Ok(sum)
}

/// `udp-open 4 PORT` or `udp-open 6 PORT`: a socket that receives what is sent to the port.
pub fn udp_open(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let six = words.word()? == "6";
    let port = words.number()?;
    let socket = socket(if six { INET6 } else { INET }, Kind::Datagram, 0).named("socket")?;
    let here = if six { Address::v6([0; 16], port, 0) } else { Address::v4([0; 4], port) };
    bind(socket, &here).named("bind")?;
    let _ = write!(answer, " fd={}", socket.0);
    Ok(())
}

/// `udp-member FD GROUP INTERFACE on|off`: the interface is its address over IPv4, its index over IPv6.
pub fn udp_member(words: &mut Words<'_>) -> Outcome {
    let socket = Fd(words.number::<u16>()?.into());
    let group = words.word()?;
    let mut request = [0; 20];
    let mut rest = Words::new(group);
    let (level, options, length) = if let Ok(group) = rest.ipv4() {
        request[..4].copy_from_slice(&group);
        request[4..8].copy_from_slice(&words.ipv4()?);
        (0, [19, 20], 8)
    } else {
        request[..16].copy_from_slice(&Words::new(group).ipv6()?);
        request[16..].copy_from_slice(&words.number::<u32>()?.to_ne_bytes());
        (41, [9, 10], 20)
    };
    let on = words.word()? == "on";
    set(socket, level, options[usize::from(!on)], &request[..length]).named("membership")?;
    Ok(())
}

/// `udp-send FD GROUP PORT INTERFACE SIZE SEED`: a datagram to a group, out of that interface.
pub fn udp_send(words: &mut Words<'_>) -> Outcome {
    let socket = Fd(words.number::<u16>()?.into());
    let (group, port) = (words.word()?, words.number()?);
    let to = if let Ok(group) = Words::new(group).ipv4() {
        set(socket, 0, 16, &words.ipv4()?).named("IP_MULTICAST_IF")?;
        Address::v4(group, port)
    } else {
        let index: u32 = words.number()?;
        set(socket, 41, 6, &index.to_ne_bytes()).named("IPV6_MULTICAST_IF")?;
        Address::v6(Words::new(group).ipv6()?, port, index)
    };
    let (size, seed): (usize, u32) = (words.number()?, words.number()?);
    let mut data = [0; ROOM];
    let data = data.get_mut(..size).ok_or(Failure::Words("that is too large"))?;
    fill(data, seed);
    send_to(socket, data, &to).named("sendto")?;
    Ok(())
}

/// `udp-receive FD MS SIZE SEED [COUNT]`: how many datagrams come until none has come for so long, or so many have, and how many are
/// as they were sent.
pub fn udp_receive(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let socket = Fd(words.number::<u16>()?.into());
    let (milliseconds, size, seed): (u64, usize, u32) = (words.number()?, words.number()?, words.number()?);
    let enough = words.number_or(u32::MAX)?;
    let (mut came, mut right) = (0, 0);
    let mut data = [0; ROOM];
    while came < enough && readable(socket, milliseconds) {
        let Ok(got) = receive(socket, &mut data) else { break };
        came += 1;
        right += u32::from(got == size && is_filled(&data[..got], seed));
    }
    let _ = write!(answer, " came={came} right={right}");
    Ok(())
}

/// `sleep MS`.
pub fn pause(words: &mut Words<'_>) -> Outcome {
    sleep(words.number()?);
    Ok(())
}
