//! `mac_ib`: the GLDv3 MAC-type plugin for InfiniBand links (IPoIB, RFC 4391).
//!
//! The rules are pure functions over bytes in [`address`], [`sap`] and [`header`]; this file binds them to the
//! framework. They answer byte for byte as the C plugin of illumos does (`io/mac/plugins/mac_ib.c`), with three
//! differences, each where the C plugin is careless:
//!
//! * the source bytes of a header that is made are zero, not whatever the buffer held;
//! * uncook drops at most as many bytes as there are, not always 40;
//! * an address with queue pair number 0xFFFFFF is multicast or broadcast whatever its reserved byte says.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod address;
pub mod header;
pub mod plugin;
pub mod sap;

use gldv3::PluginRegistration;
use kernel::module::{Env, Module};
use kernel::{Errno, MayBlock};

use plugin::Ib;

/// The module: a registered media type.
pub struct MacIb {
    plugin: PluginRegistration<Ib>,
}

impl Module for MacIb {
    fn init(_env: &Env, may_block: &MayBlock) -> Result<Self, Errno> {
        Ok(Self { plugin: PluginRegistration::register(may_block)? })
    }

    /// Before the module goes: while a link uses the media type the framework keeps pointers into this module.
    fn prepare_unload(&self) -> Result<(), Errno> {
        self.plugin.unregister()
    }
}

kernel::module!(misc MacIb);
