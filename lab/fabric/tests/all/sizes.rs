//! How an adapter counts: sizes of queues and lists, what is let in, and what can be carried out.

use crate::rig::{Host, SEND, ud_config, world_with};
use fabric::{Arithmetic, CompletionStatus, Error, HcaAttr, HcaConfig, Lso, QpSizes, SendOp, UdConfig};

fn hermon(config: &mut HcaConfig) {
    config.attr = HcaAttr::with_offloads();
    assert_eq!(config.attr.arithmetic, Arithmetic::Hermon);
}

fn sizes(host: &Host, asked: QpSizes) -> QpSizes {
    let config = UdConfig { sizes: asked, ..ud_config(&host.pd, &host.scq, &host.rcq) };
    host.hca.alloc_qp(config).unwrap().query().config.sizes
}

/// From `hermon_qp_sgl_to_logwqesz` and the lines of `hermon_qp_alloc` around it, by hand.
#[test]
fn hermon_says_that_three_pieces_more_fit_than_do_and_takes_room_for_what_it_fetches_ahead() {
    let w = world_with(1, hermon);
    let of = |sq, sq_sgl| {
        let asked = QpSizes { sq, rq: sq, sq_sgl, rq_sgl: 1 };
        let real = sizes(&w.hosts[0], asked);
        (real.sq, real.rq, real.sq_sgl)
    };
    assert_eq!(of(512, 18), (1024 - 5, 512, 31));
    assert_eq!(of(512, 59), (1024 - 3, 512, 63));
    assert_eq!(of(512, 1), (1024 - 17, 512, 7));
    assert_eq!(of(513, 59), (1024 - 3, 1024, 63));
    assert_eq!(of(4000, 59), (4096 - 3, 4096, 63));
    assert_eq!(of(8000, 59), (8192 - 3, 8192, 63));
}

/// IPoIB's header, IPv4's and TCP's, in so many bytes.
fn tcp(len: usize) -> Vec<u8> {
    let mut header = vec![0; len];
    (header[0], header[4], header[13], header[36]) = (8, 0x45, 6, ((len - 24) as u8 / 4) << 4);
    header
}

/// A host whose queue pair has lists for so many pieces, and sends that are cut.
fn post(asked: u32, header: usize, pieces: usize) -> (Result<(), Error>, Option<CompletionStatus>) {
    let w = world_with(2, hermon);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let config = UdConfig {
        sizes: QpSizes { sq: 16, rq: 1, sq_sgl: asked, rq_sgl: 1 },
        uses_lso: true,
        ..ud_config(&a.pd, &a.scq, &a.rcq)
    };
    let qp = a.hca.alloc_qp(config).unwrap();
    let mut wr = a.request(1, b"", a.to(b));
    wr.sgl = vec![a.sge(SEND, 1); pieces];
    if header > 0 {
        wr.op = SendOp::Lso(Lso { header: tcp(header), mss: 1000 });
    }
    let overruns = a.hca.overruns(&qp, &wr);
    let posted = a.hca.post_send(&qp, wr);
    assert!(posted.is_err() || header == 0 || !overruns, "what is cut is looked at");
    let mut completions = Vec::new();
    let _ = a.hca.poll_cq(&a.scq, 1, &mut completions);
    (posted, completions.first().map(|completion| completion.status))
}

#[test]
fn hermon_lets_fewer_pieces_of_a_large_send_in_than_its_list_has() {
    for (header, most) in [(44, 25), (56, 24)] {
        assert_eq!(post(18, header, most).0, Ok(()), "{header}");
        assert_eq!(post(18, header, most + 1).0, Err(Error::ChanSglLenInvalid), "{header}");
    }
}

#[test]
fn a_send_that_is_longer_than_the_adapter_carries_fails_when_it_is_carried_out() {
    assert_eq!(post(59, 56, 55), (Ok(()), Some(CompletionStatus::Success)));
    assert_eq!(post(59, 56, 56), (Ok(()), Some(CompletionStatus::LocalChannelOp)));
    assert_eq!(post(59, 56, 57).0, Err(Error::ChanSglLenInvalid));
}

#[test]
fn of_a_send_that_is_not_cut_nobody_looks_how_long_it_is() {
    let w = world_with(2, hermon);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let config = UdConfig {
        sizes: QpSizes { sq: 16, rq: 1, sq_sgl: 18, rq_sgl: 1 },
        ..ud_config(&a.pd, &a.scq, &a.rcq)
    };
    let qp = a.hca.alloc_qp(config).unwrap();
    let of = |pieces| {
        let mut wr = a.request(1, b"", a.to(b));
        wr.sgl = vec![a.sge(SEND, 1); pieces];
        (a.hca.overruns(&qp, &wr), a.hca.post_send(&qp, wr))
    };
    assert_eq!(of(28), (false, Ok(())));
    assert_eq!(of(31), (true, Ok(())));
    assert_eq!(of(32), (true, Err(Error::ChanSglLenInvalid)));
}
