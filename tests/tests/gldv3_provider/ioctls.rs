//! The dispatcher of ioctls on `/dev/dld`.

use fakekernel::{Ctx, Errno, FaultKind, FaultPlan, Module};
use lab_gldv3::dld_ioctl;

use crate::rig::{Host, examine};

const FAIL: u32 = 0x6171_0001;
const IN_ONLY: u32 = 0x6171_0002;
const OUT_ONLY: u32 = 0x6171_0003;
const REFUSED: u32 = 0x6171_0004;
/// `ENETDOWN` of `sys/errno.h`.
const ENETDOWN: Errno = Errno(127);

/// Runs a command on a number: what it answered, and the number and the status that came out.
fn ioctl(host: &Host, command: u32, number: u32) -> (Result<i32, Errno>, [u32; 2]) {
    let mut argument = [number.to_ne_bytes(), 0xffff_ffff_u32.to_ne_bytes()].concat();
    let answer = dld_ioctl(&host.kernel, command, &mut argument);
    let word = |at: usize| u32::from_ne_bytes(argument[at..at + 4].try_into().unwrap());
    (answer, [word(0), word(4)])
}

#[track_caller]
fn with_driver(body: impl Fn(&Host, &Module) + Clone + Send + 'static) {
    examine(move |host| {
        let module = host.load("ibp", "drv", &[]).expect("it registers its ioctls");
        body(host, &module);
        module.unload().expect("it takes them back");
        assert_eq!(ioctl(host, FAIL, 1).0, Err(Errno::ENODEV));
    });
}

#[test]
fn status_comes_out_although_the_driver_failed() {
    with_driver(|host, _| assert_eq!(ioctl(host, FAIL, 7), (Err(ENETDOWN), [7, 8])));
}

#[test]
fn argument_goes_in_and_out_as_the_command_says() {
    with_driver(|host, _| {
        assert_eq!(ioctl(host, IN_ONLY, 7), (Ok(5), [7, u32::MAX]), "nothing comes out");
        assert_eq!(ioctl(host, OUT_ONLY, 7), (Ok(5), [0, 1]), "zeros go in");
    });
}

#[test]
fn privilege_is_asked_before_anything_is_copied() {
    with_driver(|host, _| assert_eq!(ioctl(host, REFUSED, 7), (Err(Errno::EPERM), [7, u32::MAX])));
}

#[test]
fn command_must_match_in_every_bit() {
    with_driver(|host, _| {
        assert_eq!(ioctl(host, 0x6171_0005, 7), (Err(Errno::ENOTSUP), [7, u32::MAX]));
        assert_eq!(ioctl(host, 0x1234_0001, 7), (Err(Errno::ENOTSUP), [7, u32::MAX]));
    });
}

#[test]
fn module_without_a_place_in_the_table_is_refused() {
    with_driver(|_, module| {
        let answer = module.call_probe("probe_register_unknown", Some(Ctx::User), 0);
        assert_eq!(answer, i64::from(Errno::ENOENT.0));
    });
}

#[test]
fn shortage_of_memory_is_told() {
    with_driver(|host, _| {
        host.machine.set_fault(FaultKind::KMEM, FaultPlan::Nth(0));
        assert_eq!(ioctl(host, FAIL, 7), (Err(Errno::ENOMEM), [7, u32::MAX]));
    });
}

#[test]
fn argument_that_is_too_small_is_a_bad_address() {
    with_driver(|host, _| {
        let mut argument = [0; 4];
        assert_eq!(dld_ioctl(&host.kernel, FAIL, &mut argument), Err(Errno(14)));
    });
}
