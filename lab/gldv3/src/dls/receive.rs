//! From the soft rings to the streams (`DLS/dls_link.c`), and the copies that promiscuous streams get.

use std::sync::Arc;

use fakekernel::Rule;

use super::link::Link;
use super::stream::{IP_SAPS, StreamState};
use crate::address::{Destination, LinkAddress};
use crate::message::{Message, Messages};
use crate::plugin::HeaderInfo;
use crate::rx::{Look, Upper};
use crate::types::Received;

const ETHERTYPE_IP: u32 = IP_SAPS[0];
/// `HCK_IPV4_HDRCKSUM_OK`, `HCK_FULLCKSUM_OK`
const IP_OK: u32 = 0x1;
const FULL_OK: u32 = 0x8;

/// What the soft rings of a link see of it.
pub(super) struct Above(pub(super) Arc<Link>);

impl Upper for Above {
    fn look<'a>(
        &self,
        messages: &Messages<'_>,
        message: Message,
        bytes: &'a mut Vec<u8>,
    ) -> Option<Look<'a>> {
        let info = self.0.mac.plugin.header_info(messages, message)?;
        let first = messages.first(message);
        *bytes = first.part(info.size, usize::MAX).get();
        let aligned = (first.addr() + info.size).is_multiple_of(4);
        let bypass = self.0.bypasses()
            && info.kind == Destination::Unicast
            && info.bind_sap == ETHERTYPE_IP
            && messages.genunix.message_type(messages.cx, message.raw()) == 0
            && !messages.genunix.is_shared(messages.cx, message.raw())
            && aligned
            && bytes.len() > 20;
        Some(Look { sap: info.bind_sap as u16, ip: bytes, aligned, bypass })
    }

    fn fetched(&self, messages: &Messages<'_>, packets: &[Message]) {
        packets.iter().for_each(|packet| self.0.show_promiscuous(messages, *packet, false));
    }

    fn deliver(&self, messages: &Messages<'_>, bypass: bool, packets: Vec<Message>) {
        // An upcall: whoever brought the packets must not hold a lock that what they lead to may want.
        messages.cx.no_locks();
        if bypass { self.0.deliver_direct(messages, packets) } else { self.0.deliver_all(messages, packets) }
    }
}

/// Consecutive packets of one sender, one destination and one SAP.
struct Run {
    info: HeaderInfo,
    packets: Vec<Message>,
}

impl Link {
    /// DLS bypass: IP asked for it, and nobody but IP and ARP is bound.
    fn bypasses(&self) -> bool {
        let streams = self.streams();
        let asked = streams.iter().any(|stream| stream.wants.lock().bypass);
        let others = |stream: &Arc<StreamState>| {
            stream.wants.lock().bound.is_some_and(|(sap, _)| !IP_SAPS.contains(&sap))
        };
        asked && !streams.iter().any(others)
    }

    /// Straight to IP's stream.
    fn deliver_direct(&self, messages: &Messages<'_>, packets: Vec<Message>) {
        let stream = self.streams().into_iter().find(|stream| stream.wants.lock().bypass);
        for packet in packets {
            match (&stream, self.mac.plugin.header_info(messages, packet)) {
                (Some(stream), Some(info)) => self.hand_up(messages, stream, &info, packet, false),
                _ => {
                    self.count_unknown(1);
                    messages.free(packet);
                }
            }
        }
    }

    /// `i_dls_link_rx`.
    fn deliver_all(&self, messages: &Messages<'_>, packets: Vec<Message>) {
        for run in self.runs(messages, packets) {
            let accepting: Vec<Arc<StreamState>> =
                self.streams().into_iter().filter(|stream| stream.accepts(&run.info)).collect();
            let Some((last, others)) = accepting.split_last() else {
                self.refuse(messages, run);
                continue;
            };
            for stream in others {
                for packet in &run.packets {
                    if let Some(copy) = messages.copy(*packet) {
                        self.hand_up(messages, stream, &run.info, copy, false);
                    }
                }
            }
            for packet in run.packets {
                self.hand_up(messages, last, &run.info, packet, false);
            }
        }
    }

    /// Nobody wants these: a SAP nobody is bound to counts as unknown, a group nobody has enabled does not.
    fn refuse(&self, messages: &Messages<'_>, run: Run) {
        if !self.is_known(run.info.bind_sap) {
            self.count_unknown(run.packets.len());
        }
        messages.free_all(run.packets);
    }

    fn is_known(&self, key: u32) -> bool {
        let bound =
            |stream: &Arc<StreamState>| stream.wants.lock().bound.is_some_and(|(_, other)| other == key);
        self.streams().iter().any(bound)
    }

    /// Groups consecutive packets; a packet without a source stands alone.
    fn runs(&self, messages: &Messages<'_>, packets: Vec<Message>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for packet in packets {
            let Some(info) = self.mac.plugin.header_info(messages, packet) else {
                self.count_unknown(1);
                messages.free(packet);
                continue;
            };
            let joins = runs.last().is_some_and(|run| {
                info.source.is_some()
                    && run.info.source == info.source
                    && run.info.destination == info.destination
                    && run.info.bind_sap == info.bind_sap
            });
            match runs.last_mut() {
                Some(run) if joins => run.packets.push(packet),
                _ => runs.push(Run { info, packets: vec![packet] }),
            }
        }
        runs
    }

    /// Gives a packet to a stream as it wants it, and frees it.
    fn hand_up(
        &self,
        messages: &Messages<'_>,
        stream: &StreamState,
        info: &HeaderInfo,
        packet: Message,
        loopback: bool,
    ) {
        let receiver = stream.receiver();
        let Some(receiver) = receiver else {
            messages.free(packet);
            return;
        };
        let raw = stream.is_raw();
        let (packet, skip) = if raw {
            match self.mac.plugin.uncook(messages, packet) {
                Some(plain) => (plain, 0),
                None => return,
            }
        } else {
            (packet, info.size)
        };
        let flags = messages.genunix.checksums(messages.cx, packet.raw()).flags;
        let received = Received {
            source: if raw { None } else { info.source },
            destination: if raw { LinkAddress([0; 20]) } else { info.destination },
            kind: info.kind,
            sap: info.bind_sap as u16,
            payload: messages.bytes(packet, skip),
            ip_checksum_ok: !loopback && flags & IP_OK != 0,
            full_checksum_ok: !loopback && flags & FULL_OK != 0,
            loopback,
        };
        if !stream.keep(packet) {
            messages.free(packet);
        }
        receiver(received);
    }

    /// A copy of a packet for every promiscuous stream that wants it, in the thread that brings or sends it. A packet whose first
    /// block is shorter than the header is left out.
    pub(crate) fn show_promiscuous(&self, messages: &Messages<'_>, packet: Message, loopback: bool) {
        let watching: Vec<Arc<StreamState>> =
            self.streams().into_iter().filter(|stream| !stream.wants.lock().promiscuous.is_empty()).collect();
        if watching.is_empty() {
            return;
        }
        let Some(info) = self.mac.plugin.header_info(messages, packet) else { return };
        let known = self.is_known(info.bind_sap);
        for stream in watching {
            if stream.accepts_promiscuous(&info, loopback, known)
                && let Some(copy) = messages.copy(packet)
            {
                self.hand_up(messages, &stream, &info, copy, loopback);
            }
        }
    }

    /// A raw writer's packet, cooked and looked at; `None`, and the message freed, when there is something wrong with it.
    pub(crate) fn cooked(&self, messages: &Messages<'_>, message: Message) -> Option<Message> {
        let message = self.mac.plugin.cook(messages, message)?;
        let info = self.mac.plugin.header_info(messages, message);
        let max = self.mac.state.lock().max_sdu as usize;
        let fits = info.is_some_and(|info| messages.size(message) <= info.size + max);
        messages.cx.check(info.is_none_or(|info| info.size > 0), Rule::BadMessagePointers, || {
            "mtops_header_info tells of a header of no bytes".to_owned()
        });
        if fits {
            return Some(message);
        }
        messages.free(message);
        None
    }
}
