//! The filter expression: what a packet must be to be taken.

use std::net::IpAddr;

use super::decode::{ARP, IPV4, IPV6};
use super::network::{Ports, addresses, ethertype, ports, protocol};

/// A filter; the empty one takes everything.
pub(super) enum Filter {
    All,
    Ethertype(u16),
    Protocol(u8),
    Host(IpAddr, Side),
    Port(u16, Side),
    Not(Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
}

/// Which end of a packet is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Either,
    From,
    To,
}

type Resolve<'a> = &'a dyn Fn(&str) -> Option<IpAddr>;

/// Parentheses may be nested so deep.
const DEPTH: usize = 32;
/// Words of the original's filters that the lab does not know. As there, they are no names of hosts.
const UNKNOWN: [&str; 34] = [
    "ah",
    "apple",
    "between",
    "decnet",
    "dhcp",
    "dhcp6",
    "dstnet",
    "dstport",
    "esp",
    "ethertype",
    "gateway",
    "greater",
    "inet",
    "inet6",
    "ip-in-ip",
    "ldap",
    "length",
    "less",
    "net",
    "nofrag",
    "ospf",
    "pppoe",
    "pppoed",
    "pppoes",
    "proto",
    "rarp",
    "rpc",
    "sctp",
    "slp",
    "srcnet",
    "srcport",
    "vlan",
    "vlan-id",
    "zone",
];
/// An expression may have so many words (`MAXOPS` of the original). Each nests what stands before it.
const WORDS: usize = 1024;

struct Parser<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    resolve: Resolve<'a>,
    depth: usize,
}

impl Filter {
    pub(super) fn parse(operands: &[String], resolve: Resolve<'_>) -> Result<Self, String> {
        let text = operands.join(" ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<String> = text.split_whitespace().take(WORDS + 1).map(str::to_owned).collect();
        if words.len() > WORDS {
            return Err("expression too long".into());
        }
        if words.is_empty() {
            return Ok(Self::All);
        }
        let mut parser = Parser { words: words.into_iter().peekable(), resolve, depth: 0 };
        let filter = parser.any()?;
        match parser.words.next() {
            None => Ok(filter),
            Some(word) => Err(format!("syntax error at \"{word}\"")),
        }
    }

    pub(super) fn takes(&self, frame: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Ethertype(wanted) => ethertype(frame) == Some(*wanted),
            Self::Protocol(wanted) => protocol(frame) == Some(*wanted),
            Self::Host(host, side) => addresses(frame).is_some_and(|(from, to)| {
                *side != Side::To && from == *host || *side != Side::From && to == Some(*host)
            }),
            Self::Port(port, side) => ports(frame).is_some_and(|Ports { from, to }| {
                *side != Side::To && from == *port || *side != Side::From && to == *port
            }),
            Self::Not(one) => !one.takes(frame),
            Self::And(one, other) => one.takes(frame) && other.takes(frame),
            Self::Or(one, other) => one.takes(frame) || other.takes(frame),
        }
    }
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Filter, String> {
        let mut filter = self.all()?;
        while self.words.next_if(|word| word == "or" || word == ",").is_some() {
            filter = Filter::Or(Box::new(filter), Box::new(self.all()?));
        }
        Ok(filter)
    }

    /// Words that stand side by side are all meant.
    fn all(&mut self) -> Result<Filter, String> {
        let mut filter = self.one(Side::Either)?;
        while self.words.peek().is_some_and(|word| word != "or" && word != "," && word != ")") {
            self.words.next_if(|word| word == "and");
            filter = Filter::And(Box::new(filter), Box::new(self.one(Side::Either)?));
        }
        Ok(filter)
    }

    fn one(&mut self, side: Side) -> Result<Filter, String> {
        let word = self.words.next().ok_or("syntax error at the end")?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("expression too deep".into());
        }
        let filter = match word.as_str() {
            "(" => {
                let filter = self.any()?;
                self.words.next_if(|word| word == ")").ok_or("syntax error: `)' expected")?;
                filter
            }
            "not" | "!" => Filter::Not(Box::new(self.one(side)?)),
            "from" | "src" => self.one(Side::From)?,
            "to" | "dst" => self.one(Side::To)?,
            "broadcast" | "multicast" | "ether" | "bootp" => {
                return Err("filter option unsupported on media".into());
            }
            "arp" => Filter::Ethertype(ARP),
            "ip" => Filter::Ethertype(IPV4),
            "ip6" => Filter::Ethertype(IPV6),
            "icmp" => Filter::Protocol(1),
            "icmp6" => Filter::Protocol(58),
            "tcp" => Filter::Protocol(6),
            "udp" => Filter::Protocol(17),
            "port" => {
                let word = self.words.next().unwrap_or_default();
                Filter::Port(word.parse().map_err(|_| format!("invalid port: \"{word}\""))?, side)
            }
            "host" => {
                let word = self.words.next().unwrap_or_default();
                self.host(&word, side)?
            }
            word if UNKNOWN.contains(&word) => {
                return Err(format!("filter option unsupported in the lab: \"{word}\""));
            }
            word => self.host(word, side)?,
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn host(&self, word: &str, side: Side) -> Result<Filter, String> {
        let host = word.parse().ok().or_else(|| (self.resolve)(word));
        host.map(|host| Filter::Host(host, side)).ok_or_else(|| format!("could not resolve \"{word}\""))
    }
}
