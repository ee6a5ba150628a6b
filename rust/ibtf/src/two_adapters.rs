//! Objects of two adapters do not meet, and what IBTF calls keeps the module's text. The kernel and IBTF are stubs here.

use kernel::ddi::DevInfo;
use kernel::module::pins;
use kernel::{KArc, MayBlock};

use crate::*;

/// What is called of both: what is made has an address of its own, everything succeeds.
mod calls {
    extern crate std;

    use core::ffi::{c_int, c_void};
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::boxed::Box;

    use illumos_sys_hdrs as sys;

    type Any = *mut c_void;

    macro_rules! succeed {
        ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
            $(
                // SAFETY: nothing else in this program has the name.
                #[unsafe(no_mangle)]
                extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                    $(<$result>::default())?
                }
            )*
        };
    }

    succeed! {
        mutex_init(Any, Any, u32, Any);
        mutex_destroy(Any);
        mutex_enter(Any);
        mutex_exit(Any);
        cv_init(Any, Any, u32, Any);
        cv_destroy(Any);
        cv_wait(Any, Any);
        cv_broadcast(Any);
        delay(i64);
        drv_usectohz(i64) -> i64;
        ibt_register_subnet_notices(Any, Any, Any);
        ibt_detach(Any) -> u32;
        ibt_deregister_service(Any, Any) -> u32;
        ibt_close_hca(Any) -> u32;
        ibt_free_pd(Any, Any) -> u32;
        ibt_free_cq(Any) -> u32;
        ibt_set_cq_handler(Any, Any, Any);
        ibt_free_channel(Any) -> u32;
        ibt_flush_channel(Any) -> u32;
        ibt_query_ud_channel(Any, Any) -> u32;
        ibt_free_srq(Any) -> u32;
        ibt_query_hca(Any, Any) -> u32;
        ibt_deregister_mr(Any, Any) -> u32;
        ibt_free_ud_dest(Any) -> u32;
        ibt_close_rc_channel(Any, u32, Any, u8, Any, Any, Any) -> u32;
        ibt_post_send(Any, Any, u32, Any) -> u32;
        ibt_post_recv(Any, Any, u32, Any) -> u32;
        ibt_post_srq(Any, Any, u32, Any) -> u32;
        ibt_map_mem_iov(Any, Any, Any, Any) -> u32;
        ibt_unmap_mem_iov(Any, Any) -> u32;
        freemsg(Any);
        freeb(Any);
        ddi_driver_name(Any) -> usize;
        ddi_get_instance(Any) -> c_int;
        cmn_err(c_int, Any, Any);
        gethrtime() -> i64;
        nulldev() -> c_int;
    }

    fn make(made: &mut Any) -> u32 {
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
        let address = NEXT.fetch_add(0x1000, Ordering::Relaxed);
        *made = core::ptr::without_provenance_mut(address);
        0
    }

    macro_rules! make {
        ($($name:ident($($before:ty),*; $($behind:ty),*);)*) => {
            $(
                // SAFETY: nothing else in this program has the name.
                #[unsafe(no_mangle)]
                #[allow(unused_variables)]
                extern "C" fn $name($(_: $before,)* made: &mut Any, $(_: $behind),*) -> u32 {
                    make(made)
                }
            )*
        };
    }

    make! {
        ibt_attach(Any, Any, Any;);
        ibt_open_hca(Any, u64;);
        ibt_alloc_pd(Any, u32;);
        ibt_alloc_ud_dest(Any, u32, Any;);
        ibt_register_mr(Any, Any, Any; Any);
        ibt_alloc_rc_channel(Any, u32, Any; Any);
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn ibt_alloc_cq(
        _: Any,
        attributes: &sys::ibt_cq_attr_t,
        made: &mut Any,
        real: &mut u32,
    ) -> u32 {
        *real = attributes.cq_size;
        make(made)
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn ibt_alloc_ud_channel(
        _: Any,
        _: u32,
        args: &sys::ibt_ud_chan_alloc_args_t,
        made: &mut Any,
        real: &mut sys::ibt_chan_sizes_t,
    ) -> u32 {
        *real = args.ud_sizes;
        make(made)
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn ibt_alloc_srq(
        _: Any,
        _: u32,
        _: Any,
        wanted: &sys::ibt_srq_sizes_t,
        made: &mut Any,
        real: &mut sys::ibt_srq_sizes_t,
    ) -> u32 {
        *real = *wanted;
        make(made)
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn kmem_zalloc(size: usize, _: c_int) -> Any {
        Box::leak(std::vec![0u8; size].into_boxed_slice()).as_mut_ptr().cast()
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn kmem_free(memory: Any, size: usize) {
        let memory = core::ptr::slice_from_raw_parts_mut(memory.cast::<u8>(), size);
        // SAFETY: from `kmem_zalloc`, once.
        drop(unsafe { Box::from_raw(memory) });
    }
}

static CLIENT: ClientInfo = ClientInfo::network(c"TEST");

struct Deaf;

impl ClientHandler for Deaf {
    fn async_event(&self, _: AsyncEvent, _: &MayBlock) {}
}

impl CqHandler for Deaf {
    fn completion(&self) {}
}

/// An adapter, and one of each object on it.
struct Adapter {
    pd: Pd,
    cq: Cq,
    channel: UdChannel,
    srq: Srq,
    pool: BufferPool,
    dest: KArc<UdDest>,
}

fn config() -> UdChannelConfig {
    let sizes = ChannelSizes { send: 8, receive: 8, send_sgl: 1, receive_sgl: 1 };
    UdChannelConfig {
        port: 1,
        pkey_index: 0,
        qkey: 0,
        sizes,
        signal_all: true,
        large_sends: false,
        mapped_sends: false,
    }
}

fn adapter(client: &Client, guid: u64) -> Adapter {
    let may_block = MayBlock::on_host();
    let hca = Hca::open(client, guid, &may_block).unwrap();
    let pd = Pd::new(&hca, &may_block).unwrap();
    let cq = Cq::new(&hca, 64, KArc::new(Deaf).unwrap()).unwrap();
    let channel = UdChannel::new(&pd, &cq, &cq, &config()).unwrap();
    let srq = Srq::new(&pd, 8).unwrap();
    let pool = BufferPool::new(&pd, 4, 64, BufferUse::Receive).unwrap();
    let dest = KArc::new(UdDest::new(&pd, ()).unwrap()).unwrap();
    Adapter { pd, cq, channel, srq, pool, dest }
}

fn why<T>(made: Result<T, Status>) -> Result<(), Status> {
    made.map(drop)
}

/// Before, each of these succeeded: `hermon` follows a handle of another driver's, or programs another adapter's number.
#[test]
fn objects_of_two_adapters_are_refused() {
    let may_block = MayBlock::on_host();
    let clients = Clients::new(&may_block).unwrap();
    // SAFETY: the stubs do not look at it.
    let node = unsafe { DevInfo::from_raw(core::ptr::without_provenance_mut(8)) }.unwrap();
    let before = pins();
    let client = Client::attach(&clients, node, &CLIENT, &may_block, Deaf).unwrap();
    assert_eq!(pins(), before + 1, "an attached client keeps the text, whoever forgets it");
    let (one, other) = (adapter(&client, 1), adapter(&client, 2));
    let refused = Err(Status::INVALID_PARAM);
    assert_eq!(why(UdChannel::new(&one.pd, &other.cq, &one.cq, &config())), refused);
    assert_eq!(why(UdChannel::new(&one.pd, &one.cq, &other.cq, &config())), refused);
    assert_eq!(why(RcChannel::receiving(&one.srq, &other.cq, 1)), refused);
    assert_eq!(why(RcChannel::sending(&one.pd, &other.cq, 1, 8)), refused);
    assert_eq!(why(ReceiveQueue::new(&one.channel, &other.pool)), refused);
    assert_eq!(why(ReceiveQueue::new(&one.srq, &other.pool)), refused);
    assert_eq!(why(ReceiveQueue::new(&one.channel, &one.pool)), Ok(()));
    let mut queue = SendQueue::new(&one.channel, 8, 8, 1).unwrap();
    let mut stage = |dest| {
        let buffer = one.pool.take().unwrap();
        queue.stage_buffer(dest, buffer, SendOptions::default(), ()).map_err(|refused| refused.why)
    };
    assert_eq!(stage(&other.dest), refused);
    assert_eq!(stage(&one.dest), Ok(()));
    // The same adapter, another protection domain: an adapter refuses the send, and the queue pair is in error.
    let hca = one.pd.hca().clone();
    let domain = Pd::new(&hca, &may_block).unwrap();
    let dest = KArc::new(UdDest::new(&domain, ()).unwrap()).unwrap();
    assert_eq!(stage(&dest), refused);
    drop((queue, hca, domain, dest, one, other, client));
    assert_eq!(pins(), before);
}
