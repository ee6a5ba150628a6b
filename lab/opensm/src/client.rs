//! One adapter's connection to ibsim: two sockets, and a thread that takes what comes in.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sm::{Attribute, Guid, Lid, Mad, Qpn};

use crate::protocol::{self, CONTROL_LEN, Control, PACKET_LEN, Packet};
use crate::smp::{self, Route, SMP_DATA, SmpError};
use crate::{Adapter, Error};

/// How long ibsim may take to answer a control message.
const CONTROL_PATIENCE: Duration = Duration::from_secs(10);
/// How long an SMP's answer may take: ibsim answers at once, and OpenSM as soon as it is scheduled.
const SMP_PATIENCE: Duration = Duration::from_secs(1);
/// ibsim puts the client's number into the rest of a transaction ID.
const TRANSACTION_BITS: u64 = 0x0000_ffff_ffff_ffff;
/// Transactions of what is asked in another's name have this bit, a client's own do not.
pub(crate) const OTHERS: u64 = 1 << 47;

/// Takes packets that are no answers to [`Client::exchange`].
pub(crate) type Rest = Arc<dyn Fn(&Packet) + Send + Sync>;

/// See the module's documentation.
pub(crate) struct Client {
    pub port: Guid,
    number: u32,
    control: UnixDatagram,
    data: UnixDatagram,
    shared: Arc<Shared>,
    next: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Who waits for the answer to which transaction.
    waiting: Mutex<BTreeMap<u64, SyncSender<Packet>>>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, SyncSender<Packet>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transaction of a MAD, as far as it is the requester's.
pub(crate) fn transaction(mad: &Mad) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&mad.0[8..16]);
    u64::from_be_bytes(bytes) & TRANSACTION_BITS
}

impl Client {
    /// Connects to the ibsim of `socket` as `adapter`, whose port is marked as a subnet manager's: others hear no report.
    /// `id` tells the sockets of one ibsim apart.
    pub fn connect(socket: &str, id: u32, adapter: &Adapter, rest: Rest) -> Result<Self, Error> {
        let io = |error| Error::io(format!("the connection of {} to ibsim", adapter.name))(error);
        let bind = |what: &str| UnixDatagram::bind_addr(&protocol::address(socket, what, Some(id))?);
        let control = bind("ctl").map_err(io)?;
        let data = bind("in").map_err(io)?;
        let ask = |message: &[u8]| {
            control.send(message)?;
            let mut answer = [0; CONTROL_LEN];
            control.recv(&mut answer)?;
            Ok(answer)
        };
        control.set_read_timeout(Some(CONTROL_PATIENCE)).map_err(io)?;
        control.connect_addr(&protocol::address(socket, "ctl", None).map_err(io)?).map_err(io)?;
        let connect = protocol::connect(id, &adapter.name);
        let answer = ask(&protocol::control(0, Control::Connect, &connect)).map_err(io)?;
        let number = protocol::connected(&answer).ok_or_else(|| Error::Refused(adapter.name.clone()))?;
        data.connect_addr(&protocol::address(socket, "out", Some(number)).map_err(io)?).map_err(io)?;
        let is_sm = protocol::control(number, Control::SetIsSm, &1u32.to_ne_bytes());
        if !protocol::granted(&ask(&is_sm).map_err(io)?) {
            return Err(Error::Refused(adapter.name.clone()));
        }
        let shared = Arc::new(Shared::default());
        let receiver = data.try_clone().map_err(io)?;
        let (port, inner) = (adapter.port, shared.clone());
        let thread = std::thread::Builder::new()
            .name(format!("ibsim {}", adapter.name))
            .spawn(move || receive(&receiver, port, &inner, &rest))
            .map_err(io)?;
        Ok(Self { port, number, control, data, shared, next: AtomicU64::new(1), thread: Some(thread) })
    }

    /// Sends without waiting for an answer. A full socket waits for ibsim, which reads all the time.
    pub fn send(&self, packet: &Packet) -> Result<(), SmpError> {
        match self.data.send(&packet.emit()) {
            Ok(_) => Ok(()),
            Err(_) => Err(SmpError::Disconnected),
        }
    }

    /// A MAD to QP 1 at a LID.
    pub fn send_mad(&self, dlid: Lid, mad: &Mad) -> Result<(), SmpError> {
        self.send(&Packet::to(dlid, Qpn::GSI, *mad))
    }

    /// A transaction that nobody else of this client has.
    pub fn next_transaction(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) & (OTHERS - 1)
    }

    /// Gets an attribute of the subnet management class, asking twice: ibsim may be told to lose SMPs.
    pub fn get(&self, route: Route, attribute: Attribute, modifier: u32) -> Result<[u8; SMP_DATA], SmpError> {
        let once = || {
            let request = smp::get(route, attribute, modifier, self.next_transaction());
            smp::answer(&self.exchange(&request, SMP_PATIENCE)?.mad)
        };
        match once() {
            Err(SmpError::Timeout) => once(),
            other => other,
        }
    }

    /// Sends a request and waits for the answer, by a timer of its own: ibsim has none.
    pub fn exchange(&self, request: &Packet, patience: Duration) -> Result<Packet, SmpError> {
        let transaction = transaction(&request.mad);
        let (sender, receiver) = sync_channel(1);
        self.shared.waiting().insert(transaction, sender);
        let sent = self.send(request);
        let answer = sent.and_then(|()| match receiver.recv_timeout(patience) {
            Ok(packet) if packet.status != 0 => Err(SmpError::Undeliverable),
            Ok(packet) => Ok(packet),
            Err(RecvTimeoutError::Timeout) => Err(SmpError::Timeout),
            Err(RecvTimeoutError::Disconnected) => Err(SmpError::Disconnected),
        });
        self.shared.waiting().remove(&transaction);
        answer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.control.send(&protocol::control(self.number, Control::Disconnect, &[]));
        let _ = self.data.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes packets until the socket is shut.
fn receive(data: &UnixDatagram, port: Guid, shared: &Shared, rest: &Rest) {
    let mut bytes = [0; PACKET_LEN];
    loop {
        match data.recv(&mut bytes) {
            Ok(0) => return,
            Ok(len) => {
                if let Some(packet) = Packet::parse(&bytes[..len]) {
                    dispatch(data, port, shared, rest, &packet);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn dispatch(data: &UnixDatagram, port: Guid, shared: &Shared, rest: &Rest, packet: &Packet) {
    const RESPONSE: u8 = 0x80;
    let is_response = packet.mad.0[3] & RESPONSE != 0;
    if packet.status != 0 || is_response {
        let waiter = shared.waiting().remove(&transaction(&packet.mad));
        if let Some(waiter) = waiter {
            // It has room for one, and the waiter may have given up.
            let _ = waiter.try_send(*packet);
        } else if packet.status == 0 {
            rest(packet);
        }
    } else if let Some(answer) = smp::answer_sm_info(packet, port) {
        // OpenSM asks again.
        let _ = data.send(&answer.emit());
    } else if !smp::is_smp(&packet.mad) {
        rest(packet);
    }
}
