//! Fault management: what drivers report of their nodes (`ndi_fm_ereport_post`), and what they say is left of their service
//! (`ddi_fm_service_impact`). Kept for whoever asks; nobody diagnoses.

use std::ffi::{c_char, c_int};

use illumos_sys_hdrs::{__va_list_tag, DDI_SLEEP, ddi_fault_impact_t, dev_info_t};
use illumos_sys_hdrs::{
    DDI_SERVICE_DEGRADED, DDI_SERVICE_LOST, DDI_SERVICE_RESTORED, DDI_SERVICE_UNAFFECTED,
};
use sim::{Contexts, FaultKind, Nanos, Rule};

use super::super::print::{Arguments, VaList, variadic};
use super::node::{DevInfo, node};
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::mem::c_string;

pub(super) fn exports() -> Vec<Export> {
    let mut exports = export! { ANY: ddi_fm_service_impact; };
    exports.push(Export::raw("ndi_fm_ereport_post", ndi_fm_ereport_post as *const () as usize, Contexts::UK));
    exports
}

/// A report that a driver posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ereport {
    /// When.
    pub at: Nanos,
    /// In full, `ereport.io.` in front.
    pub class: String,
    /// The driver and instance of the node that it is about.
    pub node: (String, u32),
    /// What the driver said beside, by name.
    pub details: Vec<(String, u64)>,
}

/// What a driver says is left of a node's service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Nothing was said, or that it is as it should be.
    #[default]
    Whole,
    /// Less than there should be.
    Degraded,
    /// Nothing.
    Lost,
}

impl Kernel {
    /// What drivers have reported, oldest first.
    pub fn ereports(&self) -> Vec<Ereport> {
        self.genunix().devices.ereports.lock().clone()
    }
}

impl DevInfo {
    /// What its driver says is left of its service.
    pub fn service(&self) -> Service {
        self.node.state.lock().service
    }
}

variadic! {
    /// `void ndi_fm_ereport_post(dev_info_t *, const char *, uint64_t, int, ...)`
    ndi_fm_ereport_post, named 4, list in "r8" => post
}

unsafe extern "C" fn post(
    dip: *mut dev_info_t,
    class: *const c_char,
    _ena: u64,
    flag: c_int,
    list: *mut __va_list_tag,
) {
    /// `FM_MAX_CLASS` of `sys/fm/protocol.h`, the NUL and what is put in front taken off.
    const LONGEST: usize = 100 - "ereport.io.".len() - 1;
    let cx = cx();
    // SAFETY: ndi_fm_ereport_post(9F): a string.
    let class = String::from_utf8_lossy(&unsafe { c_string(class, None) }).into_owned();
    cx.check(flag == DDI_SLEEP, Rule::AbsurdArgument, || format!("ndi_fm_ereport_post with flag {flag}"));
    cx.check(class.len() <= LONGEST, Rule::AbsurdArgument, || format!("a class of {} bytes", class.len()));
    let Some(device) = node(dip) else { return };
    let has_parent = device.node.spec.parent.is_some();
    cx.check(has_parent, Rule::AbsurdArgument, || {
        "a report about a node that has nothing above it".to_owned()
    });
    // SAFETY: by contract the list goes on until a NULL name.
    let mut arguments = unsafe { VaList::new(list) };
    let mut details = named_numbers(&cx, &mut arguments);
    let begins = details.first().is_some_and(|(name, _)| name == "version");
    cx.check(begins, Rule::AbsurdArgument, || "a report that does not begin with its version".to_owned());
    // The adapter's driver has no capability, or there is no memory: dropped without a word.
    if !begins || cx.fault(FaultKind::DDI) {
        return;
    }
    details.remove(0);
    let report = Ereport {
        at: cx.kernel().machine().now(),
        class: format!("ereport.io.{class}"),
        node: (device.driver().to_owned(), device.instance()),
        details,
    };
    cx.kernel().genunix().devices.ereports.lock().push(report);
}

/// Names, types and values, until a name is NULL. Types that nobody here uses end it.
fn named_numbers(cx: &Cx, arguments: &mut VaList) -> Vec<(String, u64)> {
    let mut numbers = Vec::new();
    loop {
        let name = arguments.next();
        if name == 0 {
            return numbers;
        }
        let name = String::from_utf8_lossy(&arguments.string(name, None)).into_owned();
        // Enumerators of `data_type_t`: 23, 4, 6 and 8 are unsigned integers of 8, 16, 32 and 64 bits.
        let (kind, value) = (arguments.next() as u32, arguments.next());
        let value = match kind {
            23 => value & 0xff,
            4 => value & 0xffff,
            6 => value & 0xffff_ffff,
            8 => value,
            _ => {
                cx.violate(Rule::AbsurdArgument, format!("{name} in a report is of type {kind}"));
                return numbers;
            }
        };
        numbers.push((name, value));
    }
}

unsafe extern "C" fn ddi_fm_service_impact(dip: *mut dev_info_t, impact: c_int) {
    let service = match ddi_fault_impact_t(impact) {
        DDI_SERVICE_LOST => Service::Lost,
        DDI_SERVICE_DEGRADED => Service::Degraded,
        DDI_SERVICE_RESTORED => Service::Whole,
        DDI_SERVICE_UNAFFECTED => return,
        _ => return cx().violate(Rule::AbsurdArgument, format!("service impact {impact}")),
    };
    let Some(device) = node(dip) else { return };
    let mut state = device.node.state.lock();
    // What is down is not degraded as well.
    if (state.service, service) != (Service::Lost, Service::Degraded) {
        state.service = service;
    }
}
