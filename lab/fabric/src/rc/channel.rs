//! The life of a connection's queue pair: RESET to INIT when it is made, RTR, RTS, ERROR, and back to INIT.

use crate::calls::Call;
use crate::qp::Effects;
use crate::{AddressVector, Error, Hca, PortNum, QKey, Qp, QpSizes, QpState, UdConfig};

use super::{Connection, PSN_MASK, RcAttr, RcConfig, ReadyToReceive, ReadyToSend};

impl Hca {
    /// A new queue pair for a connection, in INIT. `config.sizes` are minima; [`Qp::query`] tells the real ones.
    ///
    /// # Errors
    /// As for [`Hca::alloc_qp`].
    pub fn alloc_rc_qp(&self, config: RcConfig) -> Result<Qp, Error> {
        self.check(Call::AllocQp)?;
        let sizes = self.rc_sizes(&config)?;
        self.check_address(config.port, config.pkey_ix)?;
        let config = UdConfig {
            port: config.port,
            pkey_ix: config.pkey_ix,
            qkey: QKey(0),
            pd: config.pd,
            scq: config.scq,
            rcq: config.rcq,
            srq: config.srq,
            sizes,
            signalling: config.signalling,
            uses_lso: false,
            uses_reserved_lkey: config.uses_reserved_lkey,
        };
        self.new_qp(config, Some(Connection::new()))
    }

    fn rc_sizes(&self, config: &RcConfig) -> Result<QpSizes, Error> {
        let (attr, asked) = (&self.config().attr, config.sizes);
        let own_receives = config.srq.is_none();
        if asked.sq > attr.max_chan_sz || own_receives && asked.rq > attr.max_chan_sz {
            return Err(Error::HcaWrExceeded);
        }
        if asked.sq_sgl > attr.conn_send_sgl || own_receives && asked.rq_sgl > attr.recv_sgl {
            return Err(Error::HcaSglExceeded);
        }
        Ok(attr.arithmetic.sizes(asked, own_receives, attr.conn_send_sgl))
    }

    /// Changes something of a connection in one of these states.
    fn change_rc(
        &self,
        qp: &Qp,
        states: &[QpState],
        change: impl FnOnce(&mut crate::qp::QpCore),
    ) -> Result<(), Error> {
        self.check(Call::ModifyQp)?;
        let mut core = qp.0.core.lock();
        if core.freed {
            return Err(Error::ChanHdlInvalid);
        }
        if core.connection.is_none() {
            return Err(Error::ChanSrvTypeInvalid);
        }
        if !states.contains(&core.state) {
            return Err(Error::ChanStateInvalid);
        }
        change(&mut core);
        Ok(())
    }

    /// Gives a connection in INIT another port.
    ///
    /// # Errors
    /// [`Error::HcaPortInvalid`], [`Error::ChanStateInvalid`], [`Error::ChanSrvTypeInvalid`], [`Error::ChanHdlInvalid`].
    pub fn set_rc_port(&self, qp: &Qp, port: PortNum) -> Result<(), Error> {
        self.port(port).ok_or(Error::HcaPortInvalid)?;
        self.change_rc(qp, &[QpState::Init], |core| core.config.port = port)
    }

    /// INIT to RTR.
    ///
    /// # Errors
    /// [`Error::PkeyIxIllegal`], [`Error::PkeyIxInvalid`], [`Error::StaticRateInvalid`], [`Error::SgidInvalid`];
    /// [`Error::ChanStateInvalid`] unless in INIT; [`Error::ChanSrvTypeInvalid`], [`Error::ChanHdlInvalid`].
    pub fn rc_to_rtr(&self, qp: &Qp, attr: ReadyToReceive) -> Result<(), Error> {
        let port = qp.0.core.lock().config.port;
        self.check_address(port, attr.pkey_ix)?;
        self.check_vector(&AddressVector { port, ..attr.vector })?;
        self.change_rc(qp, &[QpState::Init], |core| {
            core.state = QpState::Rtr;
            core.config.pkey_ix = attr.pkey_ix;
            if let Some(connection) = core.connection.as_mut() {
                let attr = ReadyToReceive { first_psn: attr.first_psn & PSN_MASK, ..attr };
                connection.receive = Some(attr);
                connection.responder.start(attr.first_psn);
            }
        })
    }

    /// RTR to RTS.
    ///
    /// # Errors
    /// [`Error::ChanStateInvalid`] unless in RTR; [`Error::ChanSrvTypeInvalid`], [`Error::ChanHdlInvalid`].
    pub fn rc_to_rts(&self, qp: &Qp, attr: ReadyToSend) -> Result<(), Error> {
        self.change_rc(qp, &[QpState::Rtr], |core| {
            core.state = QpState::Rts;
            if let Some(connection) = core.connection.as_mut() {
                connection.send = Some(attr);
                if let Some(receive) = connection.receive {
                    connection.requester.start(&receive, &attr);
                }
            }
        })
    }

    /// What a peer is told to wait from now on that sends a message there is no receive for: a code of [`crate::rnr_time`].
    ///
    /// # Errors
    /// [`Error::ChanStateInvalid`] before RTR and in ERROR; [`Error::ChanSrvTypeInvalid`], [`Error::ChanHdlInvalid`].
    pub fn set_min_rnr(&self, qp: &Qp, code: u8) -> Result<(), Error> {
        self.change_rc(qp, &[QpState::Rtr, QpState::Rts], |core| {
            let receive = core.connection.as_mut().and_then(|connection| connection.receive.as_mut());
            if let Some(receive) = receive {
                receive.min_rnr = code & 0x1f;
            }
        })
    }

    /// From ERROR through RESET to INIT. Work and completions of before are gone, its number is not.
    ///
    /// # Errors
    /// [`Error::HcaPortInvalid`], [`Error::PkeyIxIllegal`], [`Error::PkeyIxInvalid`]; [`Error::ChanStateInvalid`] unless in ERROR.
    pub fn recycle_rc_qp(&self, qp: &Qp, port: PortNum, pkey_ix: u16) -> Result<(), Error> {
        self.check_address(port, pkey_ix)?;
        self.quiesce(qp, |core| match (&core.connection, core.state) {
            (None, _) => Err(Error::ChanSrvTypeInvalid),
            (Some(_), QpState::Error) => Ok(()),
            (Some(_), _) => Err(Error::ChanStateInvalid),
        })?;
        let mut core = qp.0.core.lock();
        core.reset(qp.num());
        (core.config.port, core.config.pkey_ix) = (port, pkey_ix);
        core.state = QpState::Init;
        Ok(())
    }

    /// Puts a connection in ERROR as its peer's death does: every send that is under way fails for want of an acknowledgement. False if
    /// the queue pair is no connection in RTS, or has nothing under way.
    pub fn time_out(&self, qp: &Qp) -> bool {
        let mut effects = Effects::default();
        let failed = {
            let mut core = qp.0.core.lock();
            let rts = core.state == QpState::Rts;
            let oldest = core.connection.as_mut().filter(|_| rts).and_then(|c| c.requester.give_up());
            if let Some(message) = oldest {
                core.fail_send(qp.num(), message, crate::CompletionStatus::TransportTimeout, &mut effects);
            }
            oldest.is_some()
        };
        self.raise(effects);
        failed
    }
}

impl Qp {
    /// How a connection stands; `None` for a queue pair of datagrams.
    #[must_use]
    pub fn connection(&self) -> Option<RcAttr> {
        let core = self.0.core.lock();
        core.connection.as_ref().map(|connection| RcAttr {
            receive: connection.receive,
            send: connection.send,
            unacknowledged: connection.requester.waiting() as u32,
            expected_psn: connection.responder.expected(),
        })
    }
}
