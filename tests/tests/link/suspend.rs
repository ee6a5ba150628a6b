//! A system that is to be suspended.

use fakekernel::{Errno, Nanos};
use lab_gldv3::{Offload, ReceiveQueue, Stream};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, group, holds};

/// `CB_CL_CPR_DAEMON`, and the two codes that its callbacks are called with.
const DAEMONS: i32 = 0;
const STOP: i32 = 0;
const GO_ON: i32 = 1;
const REFUSED: &str = "cannot be suspended";

#[track_caller]
fn traffic_flows(bench: &Bench, alpha: &Stream, beta: &Stream, heard: &ReceiveQueue) {
    while heard.try_next().is_some() {}
    alpha.transmit(address_of(beta), b"still here", Offload::default()).unwrap();
    bench.settle();
    assert_eq!(heard.try_next().map(|packet| packet.payload), Some(b"still here".to_vec()));
}

fn refused_at_once(bench: &Bench) {
    let (alpha, beta, heard) = bench.talking(PLAIN);
    let (lines, before) = (bench.alpha.console().len(), bench.machine.now());
    assert_eq!(bench.alpha.suspend(), Err(Errno::EIO));
    let took = bench.machine.now().since(before);
    assert!(took < Nanos::from_millis(10), "refused after {took}");
    let told = bench.alpha.console().split_off(lines);
    let hca = format!("HCA GUID {:016x} port 1", bench.alpha.adapter().0);
    let all_of_it = told.iter().filter(|line| line.contains(REFUSED) && line.contains(&hca)).count();
    assert_eq!((told.len(), all_of_it), (1, 1), "lines that tell of a suspend that was refused: {told:?}");
    traffic_flows(bench, &alpha, &beta, &heard);
    // Whoever was not suspended has nothing to resume.
    assert_eq!(bench.alpha.resume(), Ok(()));
    traffic_flows(bench, &alpha, &beta, &heard);
}

#[test]
fn a_suspend_is_refused_at_once_and_the_log_says_which_link_it_was() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { driver, ..Setup::default() }.run(refused_at_once);
    }
}

#[test]
fn threads_that_were_stopped_for_a_suspend_go_on_when_it_is_called_off() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        // Whatever a thread is at, it comes to a point where it may be stopped.
        bench.settle();
        assert_eq!(bench.alpha.kernel.run_callbacks(DAEMONS, STOP), Vec::<String>::new());
        alpha.enable_multicast(group(0x0009_0001)).unwrap();
        fakekernel::sleep(Nanos::from_secs(60));
        assert_eq!(bench.memberships_of_alpha(), 1, "a stopped thread has joined a group");
        assert_eq!(bench.alpha.suspend(), Err(Errno::EIO), "which waits for no thread");
        assert_eq!(bench.alpha.kernel.run_callbacks(DAEMONS, GO_ON), Vec::<String>::new());
        bench.wait_for("the group is joined", Nanos::from_secs(10), || bench.memberships_of_alpha() == 2);
        traffic_flows(bench, &alpha, &beta, &heard);
    });
}
