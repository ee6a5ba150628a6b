//! Subnet notices: who wants them, and handing them out. What they say comes from the SA access layer.

use super::events::call;
use super::objects::Client;
use super::{Ibtl, hdl};
use crate::convert::gid_to_c;
use fabric::Gid;
use fakekernel::{Account, Export, Kernel, TaskFlag, cx, export, system_taskq};
use illumos_sys_hdrs::{
    ibt_clnt_hdl_t, ibt_sm_notice_handler_t, ibt_subnet_event_code_e, ibt_subnet_event_code_t,
    ibt_subnet_event_t,
};
use std::ffi::c_void;
use std::sync::Arc;

pub(super) fn exports() -> Vec<Export> {
    export! { UK: ibt_register_subnet_notices; }
}

/// What happened in the subnet; the numbers are `ibt_subnet_event_code_t`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SubnetEvent {
    /// Trap 66: a multicast group has its first full member.
    GroupCreated = 1,
    /// Trap 67: a multicast group lost its last one.
    GroupDeleted = 2,
    /// The port's subscription works again.
    Available = 3,
    /// It does not.
    Unavailable = 4,
    /// Trap 64: a port is in service.
    GidAvailable = 5,
    /// Trap 65: a port is gone.
    GidUnavailable = 6,
}

impl SubnetEvent {
    fn code(self) -> ibt_subnet_event_code_t {
        ibt_subnet_event_code_e(self as u32)
    }
}

/// Registers or, with NULL, cancels. Does not wait for a call that is out; `ibt_detach` does.
unsafe extern "C" fn ibt_register_subnet_notices(
    ibt_hdl: ibt_clnt_hdl_t,
    handler: ibt_sm_notice_handler_t,
    private: *mut c_void,
) {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let client = hdl!(cx, ibtl.clients, ibt_hdl);
    client.notices.set(handler, private);
    if handler.is_none() {
        return;
    }
    let hooks = ibtl.cm.lock().clone();
    let silent = hooks.map(|h| h.unsubscribed_ports(cx.kernel())).unwrap_or_default();
    for port_gid in silent {
        queue(cx.kernel(), &client, port_gid, SubnetEvent::Unavailable, Gid::default());
    }
}

/// Tells every registered client. Each call is a task of its own: order is not kept and calls may overlap.
pub(crate) fn notify(kernel: &Kernel, port_gid: Gid, event: SubnetEvent, subject: Gid) {
    for client in Ibtl::of(kernel).clients.all() {
        if client.notices.is_set() {
            queue(kernel, &client, port_gid, event, subject);
        }
    }
}

fn queue(kernel: &Kernel, client: &Arc<Client>, port_gid: Gid, event: SubnetEvent, subject: Gid) {
    client.begin_callback();
    let (kernel2, client2) = (kernel.clone(), client.clone());
    let account = Account::kernel("subnet notice");
    system_taskq(kernel).dispatch(TaskFlag::Sleep, account, move || {
        // Looked up when it runs: a cancelled registration hears no more, unless it is cancelled at this moment.
        let (handler, private) = client2.notices.get();
        if let Some(handler) = handler {
            let mut body = ibt_subnet_event_t { sm_notice_gid: gid_to_c(subject) };
            let args = (private, gid_to_c(port_gid), event.code(), &raw mut body);
            call(&kernel2, handler, args, "subnet notice handler");
        }
        client2.end_callback();
    });
}
