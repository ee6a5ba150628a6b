//! `ping(8)`.

use std::net::IpAddr;
use std::time::Duration;

use fakekernel::Errno;

use crate::getopt::Options;
use crate::session::{Exit, Failure, Session};
use crate::system::{EchoAnswer, Interface, PingSpec, Pinger, System};

const OPTIONS: Options = Options { short: "sadlLnrRvA:c:g:i:I:N:p:P:t:", long: &[], operands_end: true };

const USAGE: &str = "usage: ping host [timeout]\nusage: ping -s [-l | U] [-abdLnRrv] [-A addr_family] [-c traffic_class]\n\t[-g gateway [-g gateway ...]] [-N next_hop_router]\n\t[-F flow_label] [-I interval] [-i interface] [-P tos]\n\t[-p port] [-t ttl] host [data_size] [npackets]\n";

const TIMEOUT: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the last answers are waited for when there was none at all; otherwise twice the longest round trip, a second at least.
const LAST_ANSWER: Duration = Duration::from_secs(10);
const SIZE: usize = 56;
/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// Bytes of a `struct timeval`, without which an echo has no time.
const TIMEVAL: usize = 8;
/// The largest echo of an IPv4 packet.
const LARGEST: usize = 65_507;

#[derive(Default)]
struct Wanted {
    statistics: bool,
    numeric: bool,
    interface: Option<String>,
    interval: Option<Duration>,
    ipv6: Option<bool>,
    /// ICMP identifier.
    ident: u16,
}

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    match run(session, arguments) {
        Ok(true) => Exit::OK,
        Ok(false) => Exit::FAILURE,
        Err(failure) => session.end(Err(failure)),
    }
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Result<bool, Failure> {
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::FAILURE };
    let (parsed, operands) = OPTIONS.parse(arguments);
    // An identifier of 0 is none.
    let ident = (session.system.process_id() as u16).max(1);
    let mut wanted = Wanted { ident, ..Wanted::default() };
    for option in parsed {
        let (letter, value) = option.map_err(|_| usage())?;
        match letter {
            's' => wanted.statistics = true,
            'n' => wanted.numeric = true,
            'i' => wanted.interface = Some(value),
            'I' => {
                let seconds =
                    value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let seconds = seconds.filter(|interval| *interval >= Duration::from_millis(10));
                wanted.interval =
                    Some(seconds.ok_or_else(|| Failure::line(format!("ping: bad interval: {value}")))?);
            }
            'A' => {
                wanted.ipv6 = Some(match value.as_str() {
                    "inet" => false,
                    "inet6" => true,
                    _ => return Err(Failure::line(format!("ping: unknown address family {value}"))),
                });
            }
            'v' | 'a' | 'd' | 'r' => {}
            _ => return Err(usage()),
        }
    }
    let Some((host, rest)) = operands.split_first() else { return Err(usage()) };
    let literal: Option<IpAddr> = host.parse().ok();
    let to = literal.or_else(|| session.system.resolve(host));
    let to = to
        .filter(|to| wanted.ipv6.is_none_or(|ipv6| to.is_ipv6() == ipv6))
        .ok_or_else(|| Failure::line(format!("ping: unknown host {host}")))?;
    if let Some(named) = &wanted.interface {
        wanted.interface = Some(outgoing(session.system, named, to)?);
    }
    let numbers: Option<Vec<u64>> = rest.iter().map(|text| text.parse().ok()).collect();
    let numbers = numbers.ok_or_else(usage)?;
    let shown = if literal.is_some() || wanted.numeric { to.to_string() } else { format!("{host} ({to})") };
    match (wanted.statistics, &numbers[..]) {
        (false, [] | [_]) => {
            let timeout = numbers.first().map_or(TIMEOUT, |seconds| Duration::from_secs(*seconds));
            once(session, &wanted, host, to, timeout)
        }
        (true, [] | [_] | [_, _]) => {
            let size = numbers.first().map_or(SIZE, |size| usize::try_from(*size).unwrap_or(usize::MAX));
            if size > LARGEST {
                return Err(Failure::line(format!("ping: bad data size: {}", rest[0])));
            }
            // Of 0 there is no end.
            let count = numbers.get(1).copied().filter(|count| *count > 0);
            statistics(session, &wanted, (host, &shown, to), size, count)
        }
        _ => Err(usage()),
    }
}

/// The interface that a name, an index or an address stands for, if it has an address of the family that is up and is not `lo0`.
fn outgoing(system: &dyn System, named: &str, to: IpAddr) -> Result<String, Failure> {
    let addresses = |interface: &Interface| -> Vec<IpAddr> {
        let up = interface.addresses.iter().filter(|address| address.is_up());
        let known = up.filter_map(|address| Some(address.address?.0));
        known.filter(|ip| ip.is_ipv4() == to.is_ipv4()).collect()
    };
    let is_named = |interface: &Interface| {
        let own = addresses(interface);
        let by_address = named.parse().is_ok_and(|ip: IpAddr| own.contains(&ip));
        let by_index = named.parse() == Ok(interface.index);
        !interface.is_loopback() && !own.is_empty() && (interface.name == named || by_index || by_address)
    };
    let found = system.interfaces().into_iter().find(is_named).map(|interface| interface.name);
    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
    found.ok_or_else(|| Failure::line(format!("ping: {named} is an invalid {family} interface")))
}

fn refused(errno: Errno) -> Failure {
    let why = match errno.0 {
        128 => "Network is unreachable".to_owned(),
        97 => "Message too long".to_owned(),
        _ => errno.to_string(),
    };
    Failure::line(format!("ping: sendto {why}"))
}

fn open<'a>(session: &Session<'a>, wanted: &Wanted, to: IpAddr) -> Result<Box<dyn Pinger + 'a>, Failure> {
    let spec = PingSpec { to, interface: wanted.interface.clone(), ident: wanted.ident };
    session.system.pinger(&spec).map_err(refused)
}

/// Once a second until the first answer.
fn once(
    session: &mut Session<'_>,
    wanted: &Wanted,
    host: &str,
    to: IpAddr,
    timeout: Duration,
) -> Result<bool, Failure> {
    let mut pinger = open(session, wanted, to)?;
    let end = session.system.now().saturating_add(timeout);
    for sequence in 0.. {
        let sent = session.system.now();
        if sent >= end || session.terminal.interrupted() {
            break;
        }
        pinger.send(sequence, SIZE).map_err(refused)?;
        if pinger.answer(end.min(sent + INTERVAL)).is_some() {
            session.out(format!("{host} is alive\n"));
            return Ok(true);
        }
    }
    session.out(format!("no answer from {host}\n"));
    Ok(false)
}

/// A request each interval, however late the answers are, until as many answers have come as there are to be requests.
fn statistics(
    session: &mut Session<'_>,
    wanted: &Wanted,
    (host, shown, to): (&str, &str, IpAddr),
    size: usize,
    count: Option<u64>,
) -> Result<bool, Failure> {
    session.out(format!("PING {host}: {size} data bytes\n"));
    let mut pinger = open(session, wanted, to)?;
    let interval = wanted.interval.unwrap_or(INTERVAL);
    let numeric = wanted.numeric;
    let answered = |session: &mut Session<'_>, answer: EchoAnswer| {
        let name = (answer.from == to).then(|| shown.to_owned());
        print_answer(session, &name.unwrap_or_else(|| name_of(session, answer.from, numeric)), &answer);
        answer.after
    };
    let (mut sent, mut times) = (0, Vec::new());
    let all = |times: &Vec<Duration>| count.is_some_and(|count| times.len() as u64 >= count);
    while count.is_none_or(|count| sent < count) && !all(&times) && !session.terminal.interrupted() {
        let next = session.system.now().saturating_add(interval);
        if let Err(errno) = pinger.send(sent as u16, size) {
            session.err(refused(errno).text);
            session.out(format!("ping: wrote {host} {} chars, ret=-1\n", size + HEADER));
        }
        sent += 1;
        while !all(&times)
            && let Some(answer) = pinger.answer(next)
        {
            times.push(answered(session, answer));
        }
    }
    while !all(&times)
        && (count.is_some() || (times.len() as u64) < sent)
        && let Some(answer) = pinger.answer(session.system.now() + patience(&times))
    {
        times.push(answered(session, answer));
    }
    session.out(summary(host, sent, size, &times));
    Ok(!times.is_empty())
}

/// Another one than was asked: all were.
fn name_of(session: &Session<'_>, address: IpAddr, numeric: bool) -> String {
    let name = session.system.name_of(address).filter(|_| !numeric);
    name.map_or_else(|| address.to_string(), |name| format!("{name} ({address})"))
}

fn print_answer(
    session: &mut Session<'_>,
    from: &str,
    EchoAnswer { sequence, size, after, .. }: &EchoAnswer,
) {
    let time = if *size < TIMEVAL { String::new() } else { format!("time={:.3} ms", milliseconds(after)) };
    session.out(format!("{} bytes from {from}: icmp_seq={sequence}. {time}\n", size + HEADER));
}

/// For the answers that are out once all requests are sent.
fn patience(times: &[Duration]) -> Duration {
    times.iter().max().map_or(LAST_ANSWER, |longest| (2 * *longest).max(INTERVAL))
}

/// To the microsecond below, as the command reckons.
fn milliseconds(span: &Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

/// The end of illumos's `finish` (`ping.c`). The deviation is that of a sample, and so there is none of one answer.
fn summary(host: &str, sent: u64, size: usize, times: &[Duration]) -> String {
    let times: Vec<f64> = times.iter().map(milliseconds).collect();
    let received = times.len() as u64;
    let loss = match sent {
        0 => String::new(),
        _ if received <= sent => format!("{}% packet loss", (sent - received) * 100 / sent),
        _ => format!("{:.2} times amplification", received as f64 / sent as f64),
    };
    let mut text = format!(
        "\n----{host} PING Statistics----\n{sent} packets transmitted, {received} packets received, {loss}\n"
    );
    if !times.is_empty() && size >= TIMEVAL {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let deviations = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let deviation = if times.len() == 1 {
            "-nan".to_owned()
        } else {
            format!("{:.3}", (deviations / (count - 1.0)).sqrt())
        };
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        text +=
            &format!("round-trip (ms)  min/avg/max/stddev = {least:.3}/{mean:.3}/{most:.3}/{deviation}\n");
    }
    text
}
