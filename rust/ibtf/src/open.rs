//! [`Opening`]: how a connection is opened, by the side that will send on it.

use illumos_sys_hdrs as sys;
use kernel::KBox;

use crate::client::Client;
use crate::cm::connection_event;
use crate::path::PathInfo;
use crate::rc::RcChannel;
use crate::status::Status;

/// A connection that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The adapter of the channel, by its GUID.
    pub hca_guid: u64,
    /// The way to the other side. All times of the connection are reckoned from the packet lifetime.
    pub path: PathInfo,
    /// The service ID that is asked for.
    pub service: u64,
    /// What the other side is told: at most 92 bytes.
    pub private: &'a [u8],
    /// How often a message is repeated that is not acknowledged: 0 to 7.
    pub retries: u8,
    /// How often one that finds no receive: 0 to 7 (for ever), unless the other side says something else.
    pub receiver_retries: u8,
    /// How often the communication manager repeats what is not answered: 0 to 15.
    pub requests: u8,
    /// How long the other side's communication manager may take for an answer, in microseconds.
    pub answer_micros: u32,
}

impl RcChannel {
    /// Begins to open a connection (`ibt_open_rc_channel`, NONBLOCKING): the client is told what comes of it, once, by
    /// [`connection_established`](crate::ClientHandler::connection_established) or
    /// [`connection_failed`](crate::ClientHandler::connection_failed), unless this fails. [`close`](Self::close) gives it up; the client may
    /// be told that then, too. **May block**, but for nobody's answer.
    pub fn open(&self, client: &Client, opening: &Opening<'_>) -> Result<(), Status> {
        let mut path = KBox::new(opening.path())?;
        let mut private = [0; 92];
        let len = opening.private.len();
        private.get_mut(..len).ok_or(Status::INVALID_PARAM)?.copy_from_slice(opening.private);
        let mut args = KBox::new(sys::ibt_chan_open_args_t {
            oc_path: &mut *path,
            oc_cm_handler: Some(connection_event),
            oc_cm_clnt_private: client.cookie(),
            oc_path_rnr_retry_cnt: sys::ibt_rnr_retry_cnt_e(opening.receiver_retries.min(7).into()),
            oc_priv_data_len: len as u8,
            oc_priv_data: private.as_mut_ptr().cast(),
            oc_opaque4: opening.answer_micros,
            ..Default::default()
        })?;
        args.set_oc_path_retry_cnt(opening.retries.min(7));
        args.set_oc_opaque1(opening.requests.min(15).into());
        // How often it is repeated, and how long the other side may take.
        let flags = sys::IBT_OCHAN_OPAQUE1 | sys::IBT_OCHAN_OPAQUE4;
        // SAFETY: allocated; the arguments are copied by the call, the handler is of this module, which stays as long as the client.
        Status::check(unsafe {
            sys::ibt_open_rc_channel(
                self.handle(),
                flags,
                sys::IBT_NONBLOCKING,
                &mut *args,
                core::ptr::null_mut(),
            )
        })
    }
}

impl Opening<'_> {
    fn path(&self) -> sys::ibt_path_info_t {
        let PathInfo { address, pkey_index, mtu_code, packet_lifetime } = self.path;
        sys::ibt_path_info_t {
            pi_hca_guid: self.hca_guid,
            pi_sid: self.service,
            pi_prim_cep_path: sys::ibt_cep_path_t {
                cep_adds_vect: address.raw(),
                cep_pkey_ix: pkey_index,
                cep_hca_port_num: address.port,
                ..Default::default()
            },
            pi_path_mtu: sys::ib_mtu_t(mtu_code.into()),
            pi_prim_pkt_lt: packet_lifetime,
            ..Default::default()
        }
    }
}
