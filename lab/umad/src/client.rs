//! A client of subnet administration over a umad device.
//!
//! A device may have no times of its own, so the client waits no longer than it wants to by itself. A table whose end may have
//! been lost on the way (ibsim's carry 256 bytes and say nothing) is told apart from a whole one.

use std::time::Duration;

use rustix::io::Errno;
use sm::mad::{DATA_LEN, MAD_LEN, RmppKind};
use sm::records::{Record, parse_table};
use sm::{Mad, Method, QKey, Qpn, SaMad, Status};

use crate::device::{Administrator, Device};
use crate::header::Header;
use crate::registration::{AgentId, Methods, Registration};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a question is asked.
const ATTEMPTS: u32 = 3;
/// Messages for others that are passed over while an answer is waited for.
const STRANGERS: usize = 64;
/// What a buffer has room for at first.
const BUFFER: usize = 4096;
const HEADERS: usize = MAD_LEN - DATA_LEN;

/// Why there is no answer to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The device refuses.
    #[error("{0}")]
    Device(Errno),
    /// The port knows no subnet manager, or is in no default partition.
    #[error("the port knows no subnet administrator")]
    NoAdministrator,
    /// Nobody answers.
    #[error("the subnet administrator does not answer")]
    Unanswered,
    /// The administrator refuses.
    #[error("the subnet administrator refuses: {0:?}")]
    Refused(Status),
}

impl From<Errno> for AskError {
    fn from(errno: Errno) -> Self {
        Self::Device(errno)
    }
}

/// The records of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<R> {
    /// Those that arrived.
    pub records: Vec<R>,
    /// There may have been more.
    pub cut: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct SaClient<D> {
    device: D,
    agent: AgentId,
    next: u32,
    sm_key: u64,
}

/// An answer as it came.
struct Answer {
    header: SaMad,
    data: Vec<u8>,
    cut: bool,
}

impl<D: Device> SaClient<D> {
    /// A client that is not trusted with private fields.
    ///
    /// # Errors
    /// What registering an agent says.
    pub fn new(mut device: D) -> Result<Self, Errno> {
        let agent = device.register(&Registration::subnet_administration(Methods::NONE))?;
        Ok(Self { device, agent, next: 0, sm_key: 0 })
    }

    /// The administrator's key from now on, for what only trusted clients are told; 0: not trusted.
    pub const fn set_sm_key(&mut self, sm_key: u64) {
        self.sm_key = sm_key;
    }

    /// What the port knows of itself.
    ///
    /// # Errors
    /// See [`Device::administrator`].
    pub fn administrator(&self) -> Result<Administrator, Errno> {
        self.device.administrator()
    }

    /// The one record that fits.
    ///
    /// # Errors
    /// Why there is none.
    pub fn get<R: Record>(&mut self, mask: u64, record: &R) -> Result<R, AskError> {
        let answer = self.ask(Method::GET, mask, record)?;
        answer.header.record().ok_or(AskError::Refused(Status::INVALID_FIELD))
    }

    /// All records that fit: an empty table if none does.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn table<R: Record>(&mut self, mask: u64, record: &R) -> Result<Table<R>, AskError> {
        match self.ask(Method::GET_TABLE, mask, record) {
            Ok(answer) => {
                let records = parse_table(&answer.data, answer.header.attribute_offset);
                Ok(Table { records, cut: answer.cut })
            }
            Err(AskError::Refused(Status::NO_RECORDS)) => Ok(Table { records: Vec::new(), cut: false }),
            Err(error) => Err(error),
        }
    }

    fn ask<R: Record>(&mut self, method: Method, mask: u64, record: &R) -> Result<Answer, AskError> {
        for _ in 0..ATTEMPTS {
            self.next = self.next.wrapping_add(1);
            let request = SaMad::request(method, R::ATTRIBUTE, self.next.into(), mask).with_record(record);
            self.send(&SaMad { sm_key: self.sm_key, ..request })?;
            let Some(answer) = self.wait(method)? else { continue };
            match answer.header.status {
                Status::SUCCESS => return Ok(answer),
                Status::BUSY => {}
                refused => return Err(AskError::Refused(refused)),
            }
        }
        Err(AskError::Unanswered)
    }

    fn send(&mut self, request: &SaMad) -> Result<(), AskError> {
        let port = self.device.administrator()?;
        let p_key_index = port.p_key_index().filter(|_| port.lid.is_unicast());
        let header = Header {
            agent: self.agent.0,
            timeout_ms: PATIENCE.as_millis() as u32,
            qpn: Qpn::GSI,
            q_key: QKey::GSI,
            lid: port.lid,
            sl: port.sl,
            p_key_index: p_key_index.ok_or(AskError::NoAdministrator)?,
            ..Header::default()
        };
        let message = [&header.emit(self.device.layout())[..], &request.emit().0].concat();
        self.device.write(&message)?;
        Ok(())
    }

    /// The answer to the last request; `None` if it does not come.
    fn wait(&mut self, method: Method) -> Result<Option<Answer>, AskError> {
        let mut buffer = vec![0; BUFFER];
        for _ in 0..STRANGERS {
            // Longer than a device with times of its own takes to say so.
            let size = match self.device.read(&mut buffer, 2 * PATIENCE) {
                Ok(size) => size,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NOSPC) => {
                    let header = Header::parse(self.device.layout(), &buffer);
                    buffer = vec![0; header.map_or(BUFFER, |(header, _)| header.length as usize).max(BUFFER)];
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            };
            let Some((header, mad)) = Header::parse(self.device.layout(), &buffer[..size]) else { continue };
            match self.examine(method, &header, mad) {
                Some(Ok(answer)) => return Ok(Some(answer)),
                Some(Err(())) => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    /// The answer; an error if nobody answered; `None` for what is something else.
    fn examine(&self, method: Method, header: &Header, mad: &[u8]) -> Option<Result<Answer, ()>> {
        const LOW_HALF: u64 = 0xffff_ffff;
        let mut first = Mad([0; MAD_LEN]);
        let taken = mad.len().min(MAD_LEN);
        first.0[..taken].copy_from_slice(&mad[..taken]);
        let answer = SaMad::parse(&first).ok()?;
        if answer.transaction & LOW_HALF != u64::from(self.next) {
            return None;
        }
        if header.status != 0 && !is(header.status, Errno::OVERFLOW) {
            return Some(Err(()));
        }
        if answer.method != method.response() {
            return None;
        }
        let in_pieces = answer.rmpp.is_active() && answer.rmpp.kind == RmppKind::Data;
        let full = mad.len() == MAD_LEN && method == Method::GET_TABLE && !in_pieces;
        let cut = is(header.status, Errno::OVERFLOW) || (full && answer.status == Status::SUCCESS);
        Some(Ok(Answer { header: answer, data: mad.get(HEADERS..).unwrap_or_default().to_vec(), cut }))
    }
}

fn is(status: u32, errno: Errno) -> bool {
    status == errno.raw_os_error().unsigned_abs()
}
