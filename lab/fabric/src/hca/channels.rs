//! Queue pairs of an HCA.

use super::Hca;
use crate::calls::Call;
use crate::qp::{Effects, QpCore};
use crate::rc::Connection;
use crate::{Error, PortNum, QKey, Qp, QpSizes, QpState, Qpn, Srq, UdConfig};

impl Hca {
    /// A new UD QP, already in RTS. `config.sizes` are minima; [`Qp::query`] tells the real ones.
    ///
    /// # Errors
    /// [`Error::HcaPortInvalid`]; [`Error::PkeyIxIllegal`], [`Error::PkeyIxInvalid`]; [`Error::HcaWrExceeded`];
    /// [`Error::HcaSglExceeded`]; [`Error::InsuffResource`]; a handle error for an object already freed.
    pub fn alloc_qp(&self, config: UdConfig) -> Result<Qp, Error> {
        self.check(Call::AllocQp)?;
        let sizes = self.real_sizes(&config)?;
        self.check_address(config.port, config.pkey_ix)?;
        self.new_qp(UdConfig { sizes, ..config }, None)
    }

    /// A queue pair of these sizes, its address checked.
    pub(crate) fn new_qp(&self, config: UdConfig, connection: Option<Connection>) -> Result<Qp, Error> {
        let mut objects = self.0.objects.lock();
        if objects.qps.len() >= self.0.config.attr.max_qp as usize {
            return Err(Error::InsuffResource);
        }
        hold_all(&config)?;
        let qpn = objects.fresh_qpn();
        let qp = Qp::new(qpn, config, connection);
        objects.qps.insert(qpn, qp.clone());
        Ok(qp)
    }

    pub(crate) fn check_address(&self, port: PortNum, pkey_ix: u16) -> Result<(), Error> {
        let port = self.port(port).ok_or(Error::HcaPortInvalid)?;
        match port.pkey(pkey_ix) {
            None => Err(Error::PkeyIxIllegal),
            Some(pkey) if !pkey.is_valid() => Err(Error::PkeyIxInvalid),
            Some(_) => Ok(()),
        }
    }

    fn real_sizes(&self, config: &UdConfig) -> Result<QpSizes, Error> {
        let attr = &self.0.config.attr;
        let asked = config.sizes;
        if asked.sq > attr.max_chan_sz || asked.rq > attr.max_chan_sz {
            return Err(Error::HcaWrExceeded);
        }
        if asked.sq_sgl > attr.ud_send_sgl || asked.rq_sgl > attr.recv_sgl {
            return Err(Error::HcaSglExceeded);
        }
        Ok(attr.arithmetic.sizes(asked, config.srq.is_none(), attr.ud_send_sgl))
    }

    /// Moves the QP to ERROR; everything outstanding completes with status 14.
    ///
    /// # Errors
    /// [`Error::ChanHdlInvalid`] if it was freed.
    pub fn flush_qp(&self, qp: &Qp) -> Result<(), Error> {
        self.check(Call::FlushQp)?;
        let mut effects = Effects::default();
        {
            let mut core = qp.0.core.lock();
            if core.freed {
                return Err(Error::ChanHdlInvalid);
            }
            core.fail(qp.num(), &mut effects);
        }
        self.raise(effects);
        Ok(())
    }

    /// SQE to RTS; no effect in RTS.
    ///
    /// # Errors
    /// [`Error::ChanStateInvalid`] in any other state.
    pub fn recover_qp(&self, qp: &Qp) -> Result<(), Error> {
        let mut core = qp.0.core.lock();
        match core.state {
            _ if core.connection.is_some() => return Err(Error::ChanSrvTypeInvalid),
            QpState::Sqe | QpState::Rts if !core.freed => core.state = QpState::Rts,
            _ => return Err(Error::ChanStateInvalid),
        }
        Ok(())
    }

    /// From ERROR through RESET to RTS with a new address. Work and completions of before are gone; its number and the groups it is
    /// attached to are not.
    ///
    /// # Errors
    /// [`Error::HcaPortInvalid`]; [`Error::PkeyIxIllegal`] beyond the port's table, whatever is in it (nobody looks, as nobody looks
    /// when a table changes under a QP); [`Error::ChanStateInvalid`] unless in ERROR.
    pub fn recycle_qp(&self, qp: &Qp, port: PortNum, pkey_ix: u16, qkey: QKey) -> Result<(), Error> {
        match self.check_address(port, pkey_ix) {
            Ok(()) | Err(Error::PkeyIxInvalid) => {}
            Err(error) => return Err(error),
        }
        self.quiesce(qp, |core| match (&core.connection, core.state) {
            (Some(_), _) => Err(Error::ChanSrvTypeInvalid),
            (None, QpState::Error) => Ok(()),
            (None, _) => Err(Error::ChanStateInvalid),
        })?;
        let mut core = qp.0.core.lock();
        core.reset(qp.num());
        core.stale |= std::mem::take(&mut core.posted);
        core.config.port = port;
        core.config.pkey_ix = pkey_ix;
        core.config.qkey = qkey;
        core.state = QpState::Rts;
        Ok(())
    }

    /// Changes the queue key of a QP; of one in ERROR nothing, without a word (IBTL asks for no change of state, and that is granted).
    ///
    /// # Errors
    /// [`Error::ChanHdlInvalid`] if it was freed; [`Error::ChanStateInvalid`] in any other state than RTS and ERROR.
    pub fn set_qkey(&self, qp: &Qp, qkey: QKey) -> Result<(), Error> {
        let mut core = qp.0.core.lock();
        match core.state {
            _ if core.freed => Err(Error::ChanHdlInvalid),
            _ if core.connection.is_some() => Err(Error::ChanSrvTypeInvalid),
            QpState::Rts => {
                core.config.qkey = qkey;
                Ok(())
            }
            QpState::Error => Ok(()),
            _ => Err(Error::ChanStateInvalid),
        }
    }

    /// Waits until no request of the QP is being carried out, checking `may` each time. In the deterministic mode there is
    /// never anything to wait for; in the live mode it is the copy of one datagram.
    pub(crate) fn quiesce(&self, qp: &Qp, may: impl Fn(&QpCore) -> Result<(), Error>) -> Result<(), Error> {
        loop {
            let mut core = qp.0.core.lock();
            if core.freed {
                return Err(Error::ChanHdlInvalid);
            }
            may(&core)?;
            // No new work starts in RESET.
            if core.is_quiet() {
                core.state = QpState::Reset;
                return Ok(());
            }
            drop(core);
            std::thread::yield_now();
        }
    }

    /// Resets and frees it; its completions leave its CQs.
    ///
    /// # Errors
    /// [`Error::CiFailure`] while attached to a multicast group; [`Error::ChanHdlInvalid`] if it was freed.
    pub fn free_qp(&self, qp: &Qp) -> Result<(), Error> {
        self.free(qp, false)
    }

    /// The same; its number is given to nobody until [`Hca::release_number`].
    ///
    /// # Errors
    /// As for [`Hca::free_qp`].
    pub fn free_qp_only(&self, qp: &Qp) -> Result<(), Error> {
        self.free(qp, true)
    }

    /// The number of a queue pair that is gone may be given out again.
    pub fn release_number(&self, qpn: Qpn) {
        self.0.objects.lock().kept.remove(&qpn);
    }

    fn free(&self, qp: &Qp, keep_number: bool) -> Result<(), Error> {
        self.check(Call::FreeQp)?;
        self.quiesce(qp, |core| if core.attached > 0 { Err(Error::CiFailure) } else { Ok(()) })?;
        let config = {
            let mut core = qp.0.core.lock();
            if core.freed {
                return Err(Error::ChanHdlInvalid);
            }
            core.reset(qp.num());
            core.freed = true;
            core.config.clone()
        };
        let mut objects = self.0.objects.lock();
        objects.qps.remove(&qp.num());
        if keep_number {
            objects.kept.insert(qp.num());
        }
        drop(objects);
        release_all(&config);
        Ok(())
    }
}

/// Takes a reference on everything the QP uses, or on nothing.
fn hold_all(config: &UdConfig) -> Result<(), Error> {
    config.pd.hold()?;
    if let Err(e) = config.scq.hold() {
        config.pd.release();
        return Err(e);
    }
    if let Err(e) = config.rcq.hold() {
        config.pd.release();
        config.scq.release();
        return Err(e);
    }
    if let Some(Err(e)) = config.srq.as_ref().map(Srq::hold) {
        config.pd.release();
        config.scq.release();
        config.rcq.release();
        return Err(e);
    }
    Ok(())
}

fn release_all(config: &UdConfig) {
    config.pd.release();
    config.scq.release();
    config.rcq.release();
    if let Some(srq) = &config.srq {
        srq.release();
    }
}
