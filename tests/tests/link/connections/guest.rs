//! Somebody who opens connections to a link: `tests/probes/ibd/guest.c`.

use conformance::probe::Probe;
use fakekernel::{Ctx, Kernel, Module, Nanos};

use crate::bench::{Bench, Host};

/// Somebody on alpha's host who opens connections to beta's link.
pub struct Guest {
    kernel: Kernel,
    module: Module,
    channels: i64,
}

impl Guest {
    pub fn new(bench: &Bench, channels: i64) -> Self {
        let object =
            Probe::new("guest").file("probes/ibd/guest.c").depends("misc/ibtl").depends("misc/ibcm").build();
        let kernel = bench.alpha.kernel.clone();
        let module = kernel.scope(|| {
            let module = kernel.load(&object, "guest", "misc").expect("the probe loads");
            module.install().expect("the probe installs");
            module
        });
        let guest = Self { kernel, module, channels };
        guest.run("probe_open", bench.alpha.adapter().0 as i64);
        guest.run("probe_start", 0);
        (0..channels).for_each(|n| guest.run("probe_make", n));
        guest
    }

    pub fn ask(&self, probe: &'static str, arg: i64) -> i64 {
        self.kernel.scope(|| self.module.call_probe(probe, Some(Ctx::User), arg))
    }

    #[track_caller]
    pub fn run(&self, probe: &'static str, arg: i64) {
        assert_eq!(self.ask(probe, arg), 0, "{probe}({arg:#x})");
    }

    /// Whom it opens connections to, by which service, and what it says of itself: a queue pair's number, and the longest message.
    pub fn aim(&self, to: &Host, service: i64, qpn: u32, longest: u32) {
        self.run("probe_aim", to.port().0 as i64);
        self.run("probe_service", service);
        let said = qpn.to_be_bytes().into_iter().chain(longest.to_be_bytes());
        for (at, octet) in (0..).zip(said) {
            self.run("probe_say", at << 8 | i64::from(octet));
        }
    }

    /// What came back with the last connection.
    pub fn heard(&self) -> [u8; 8] {
        std::array::from_fn(|at| self.ask("probe_said", at as i64) as u8)
    }

    /// Sends a message of so many octets, all told, with this EtherType.
    pub fn send(&self, channel: i64, len: usize, ethertype: u32) {
        self.run("probe_write", (len as i64) << 16 | i64::from(ethertype));
        self.run("probe_send", (len as i64) << 16 | channel);
    }

    /// Closes what stands and goes.
    pub fn leave(self) {
        for n in 0..self.channels {
            // One that was never opened, or failed, is not known.
            self.ask("probe_close_channel", n);
            self.run("probe_free", n);
        }
        self.run("probe_stop", 0);
        self.forget();
        self.run("probe_close", 0);
        self.kernel.scope(|| self.module.unload()).expect("the probe unloads");
    }

    /// Numbers of queue pairs come free.
    fn forget(&self) {
        let busy = || lab_ibtf::connected(&self.kernel) != Default::default();
        for _ in 0..600 {
            if !busy() {
                return;
            }
            fakekernel::sleep(Nanos::from_secs(1));
        }
        panic!("connections are never forgotten");
    }
}
