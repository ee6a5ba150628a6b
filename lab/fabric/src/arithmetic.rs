//! How an adapter's driver counts the room in its work queues, which is not always as much as it says.

use crate::{QpSizes, SendOp, SendWr};

/// Bytes of a control and a datagram segment, which every UD send begins with.
const HEADERS: u32 = 64;
/// Bytes of a control segment alone.
const CONTROL: u32 = 16;
/// Bytes of a data segment.
const PIECE: u32 = 16;
/// A request takes a power of two of bytes, and no fewer.
const LEAST_REQUEST: u32 = 64;
/// Bytes of the send queue that the adapter may fetch ahead, beside one request: never posted to.
const FETCHED_AHEAD: u32 = 2048;

/// Which driver's arithmetic an adapter has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// That of illumos's `hermon`: of a send it takes off the control segment alone when it says how many pieces fit
    /// (`hermon_qp.c`, `hermon_qp_sgl_to_logwqesz`), and the datagram segment as well when they are posted (`hermon_wr.c`,
    /// `hermon_post_send_ud`). It has no least sizes here: small queues are the less kind ones.
    #[default]
    Hermon,
    /// What it says fits.
    Exact,
}

impl Arithmetic {
    /// The real sizes for those asked for; without an own receive queue there are no receives. `most` is the longest list of pieces
    /// that the adapter promises for a send.
    pub(crate) fn sizes(self, asked: QpSizes, receives: bool, most: u32) -> QpSizes {
        let request = (HEADERS + PIECE * asked.sq_sgl.max(1)).next_power_of_two().max(LEAST_REQUEST);
        let headroom = (request + FETCHED_AHEAD) / request;
        let (sq, sq_sgl) = match self {
            Self::Hermon => {
                ((asked.sq.max(1) + headroom).next_power_of_two() - headroom, (request - CONTROL) / PIECE)
            }
            Self::Exact => (asked.sq.max(1).next_power_of_two(), ((request - HEADERS) / PIECE).min(most)),
        };
        let own = |size: u32| if receives { size } else { 0 };
        QpSizes {
            sq,
            rq: own(asked.rq.max(1).next_power_of_two()),
            sq_sgl,
            rq_sgl: own((PIECE * asked.rq_sgl.max(1)).next_power_of_two().max(LEAST_REQUEST) / PIECE),
        }
    }

    /// Bytes that a send of a queue with these lists may take.
    fn request(self, sq_sgl: u32) -> u32 {
        match self {
            Self::Hermon => CONTROL + PIECE * sq_sgl,
            Self::Exact => HEADERS + PIECE * sq_sgl,
        }
    }

    /// Whether a send is let into a queue with lists of `sq_sgl` pieces.
    pub(crate) fn admits(self, wr: &SendWr, sq_sgl: u32) -> bool {
        let pieces = wr.sgl.len() as u64;
        let cut = matches!(wr.op, SendOp::Lso(_));
        pieces <= u64::from(sq_sgl) && (!cut || bytes(wr) <= u64::from(self.request(sq_sgl)))
    }

    /// Whether a send that is let in writes over the one behind it: of one that is not cut nobody looks how long it is.
    pub(crate) fn overruns(self, wr: &SendWr, sq_sgl: u32) -> bool {
        bytes(wr) > u64::from(self.request(sq_sgl))
    }
}

/// Bytes that a send takes in its queue. The header of one that is cut has four bytes of its length in front.
fn bytes(wr: &SendWr) -> u64 {
    let header = match &wr.op {
        SendOp::Send => 0,
        SendOp::Lso(lso) => (lso.header.len() as u64 + 4).next_multiple_of(PIECE.into()),
    };
    u64::from(HEADERS) + header + u64::from(PIECE) * wr.sgl.len() as u64
}

/// Bytes that illumos's `hermon` takes for the queues of a queue pair with these sizes, which it has said.
pub(crate) fn queue_bytes(said: QpSizes) -> u64 {
    let request = (CONTROL + PIECE * said.sq_sgl).next_power_of_two();
    let ahead = (request + FETCHED_AHEAD) / request;
    let sends = u64::from((said.sq + ahead).next_power_of_two()) * u64::from(request);
    sends + u64::from(said.rq) * u64::from(PIECE * said.rq_sgl)
}

/// Bytes of the longest send that an adapter can carry out which promises lists of `most` pieces.
pub(crate) fn carries(wr: &SendWr, most: u32) -> bool {
    bytes(wr) <= u64::from(HEADERS + PIECE * most)
}
