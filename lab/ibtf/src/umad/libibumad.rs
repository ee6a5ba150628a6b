//! A real port, through libibumad (rdma-core), which is looked for when it is asked for: nothing here is linked against it.
//!
//! libibumad's buffers begin with the header of the device file, so messages pass as they are. Its names and layouts are those
//! of `infiniband/umad.h`, 1.0 of its symbols.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_void};
use std::time::Duration;

use libloading::{Library, Symbol};
use sm::{Gid, Lid, PKey, Sl};
use umad::{Administrator, AgentId, Device, Errno, Header, Layout, Registration};

const LIBRARY: &str = "libibumad.so.3";
/// `UMAD_CA_NAME_LEN`
const NAME: usize = 20;
/// `UMAD_MAX_DEVICES`
const DEVICES: usize = 32;
/// `UMAD_ANY_PORT`
const ANY_PORT: c_int = 0;

/// Why there is no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPort(String);

/// `umad_port_t`.
#[repr(C)]
struct PortView {
    ca_name: [c_char; NAME],
    portnum: c_int,
    base_lid: c_uint,
    lmc: c_uint,
    sm_lid: c_uint,
    sm_sl: c_uint,
    state: c_uint,
    phys_state: c_uint,
    rate: c_uint,
    capmask: u32,
    gid_prefix: u64,
    port_guid: u64,
    pkeys_size: c_uint,
    pkeys: *mut u16,
    link_layer: [c_char; NAME],
}

type Names = [[c_char; NAME]; DEVICES];

/// The functions that are used, as they stand in the library.
struct Calls {
    get_port: unsafe extern "C" fn(*const c_char, c_int, *mut PortView) -> c_int,
    release_port: unsafe extern "C" fn(*mut PortView) -> c_int,
    open_port: unsafe extern "C" fn(*const c_char, c_int) -> c_int,
    close_port: unsafe extern "C" fn(c_int) -> c_int,
    register: unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int,
    unregister: unsafe extern "C" fn(c_int, c_int) -> c_int,
    send: unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int,
    recv: unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int,
    size: unsafe extern "C" fn() -> usize,
    init: unsafe extern "C" fn() -> c_int,
    get_cas_names: unsafe extern "C" fn(*mut [c_char; NAME], c_int) -> c_int,
    /// Keeps the others callable.
    _library: Library,
}

/// One function of the library.
///
/// # Safety
///
/// `F` is the type of the function of this name.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, NoPort> {
    // SAFETY: by this function's contract the type is the symbol's.
    let symbol: Result<Symbol<'_, F>, _> = unsafe { library.get(name) };
    symbol.map(|symbol| *symbol).map_err(|_| NoPort(format!("{LIBRARY} has no {name}")))
}

impl Calls {
    fn load() -> Result<Self, NoPort> {
        // SAFETY: what libibumad does when it is loaded touches nothing of this process.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library.map_err(|_| {
            NoPort(format!("{LIBRARY} is not installed: apt-get install libibumad3, or ask a lab"))
        })?;
        // Each type is that of the declaration in infiniband/umad.h.
        let this = Self {
            // SAFETY: int umad_get_port(const char *, int, umad_port_t *)
            get_port: unsafe { function(&library, "umad_get_port") }?,
            // SAFETY: int umad_release_port(umad_port_t *)
            release_port: unsafe { function(&library, "umad_release_port") }?,
            // SAFETY: int umad_open_port(const char *, int)
            open_port: unsafe { function(&library, "umad_open_port") }?,
            // SAFETY: int umad_close_port(int)
            close_port: unsafe { function(&library, "umad_close_port") }?,
            // SAFETY: int umad_register(int, int, int, uint8_t, long *)
            register: unsafe { function(&library, "umad_register") }?,
            // SAFETY: int umad_unregister(int, int)
            unregister: unsafe { function(&library, "umad_unregister") }?,
            // SAFETY: int umad_send(int, int, void *, int, int, int)
            send: unsafe { function(&library, "umad_send") }?,
            // SAFETY: int umad_recv(int, void *, int *, int)
            recv: unsafe { function(&library, "umad_recv") }?,
            // SAFETY: size_t umad_size(void)
            size: unsafe { function(&library, "umad_size") }?,
            // SAFETY: int umad_init(void)
            init: unsafe { function(&library, "umad_init") }?,
            // SAFETY: int umad_get_cas_names(char (*)[UMAD_CA_NAME_LEN], int)
            get_cas_names: unsafe { function(&library, "umad_get_cas_names") }?,
            _library: library,
        };
        // SAFETY: it has no arguments; called before anything else, as it wants to be.
        let begun = unsafe { (this.init)() };
        if begun < 0 {
            Err(NoPort("this machine has no umad devices: /sys/class/infiniband_mad".into()))
        } else {
            Ok(this)
        }
    }

    /// The adapters of this machine.
    fn adapters(&self) -> Vec<String> {
        let mut names: Names = [[0; NAME]; DEVICES];
        // SAFETY: there is room for as many names as are said.
        let found = unsafe { (self.get_cas_names)(names.as_mut_ptr(), DEVICES as c_int) };
        let found = usize::try_from(found).unwrap_or(0).min(DEVICES);
        let text = |name: &[c_char; NAME]| {
            let bytes = name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            String::from_utf8(bytes).unwrap_or_default()
        };
        let named = names[..found].iter().map(text);
        // Where there is none the library names one all the same.
        named.filter(|name| self.port(name, ANY_PORT).is_ok()).collect()
    }

    /// What a port of an adapter knows now.
    fn port(&self, adapter: &str, port: c_int) -> Result<Administrator, Errno> {
        let adapter = CString::new(adapter).map_err(|_| Errno::INVAL)?;
        // SAFETY: numbers, characters and a pointer that may be null: zeros are such a structure.
        let mut view: PortView = unsafe { std::mem::zeroed() };
        // SAFETY: the name ends with a NUL; the structure is the library's own, in its layout.
        let done = unsafe { (self.get_port)(adapter.as_ptr(), port, &raw mut view) };
        number(done)?;
        let count = if view.pkeys.is_null() { 0 } else { view.pkeys_size as usize };
        let key = |index: usize| {
            // SAFETY: within the table that the library made, in host order, until it is released below.
            let key = unsafe { view.pkeys.add(index) };
            // SAFETY: as above.
            PKey(unsafe { key.read() })
        };
        let p_keys = (0..count).map(key).collect();
        let administrator = Administrator {
            lid: Lid(view.sm_lid as u16),
            sl: Sl::truncating(view.sm_sl as u8),
            own_lid: Lid(view.base_lid as u16),
            own_gid: Gid { prefix: u64::from_be(view.gid_prefix), guid: u64::from_be(view.port_guid) },
            p_keys,
        };
        // SAFETY: it was filled by umad_get_port and is not used any more.
        let _ = unsafe { (self.release_port)(&raw mut view) };
        Ok(administrator)
    }
}

/// An open umad device of this machine, in the new layout.
pub struct LibIbUmad {
    calls: Calls,
    adapter: String,
    port: c_int,
    id: c_int,
    layout: Layout,
}

impl LibIbUmad {
    /// Opens a port of an adapter.
    ///
    /// # Errors
    /// In one line what is missing.
    pub fn open(name: &str, port: u8) -> Result<Self, NoPort> {
        let calls = Calls::load()?;
        let adapters = calls.adapters();
        if adapters.is_empty() {
            return Err(NoPort(
                "this machine has no InfiniBand adapter: there is none in /sys/class/infiniband_mad".into(),
            ));
        }
        if !adapters.iter().any(|known| known == name) {
            let known = adapters.join(", ");
            return Err(NoPort(format!(
                "this machine has no InfiniBand adapter {name}, expected one of {known}"
            )));
        }
        let c_name = CString::new(name).map_err(|_| NoPort("no name of an adapter".into()))?;
        // SAFETY: the name ends with a NUL and outlives the call.
        let id = unsafe { (calls.open_port)(c_name.as_ptr(), port.into()) };
        if id < 0 {
            return Err(NoPort(format!("{name}, port {port}: {}", errno(id))));
        }
        // SAFETY: it has no arguments.
        let size = unsafe { (calls.size)() };
        let layout = if size == Layout::New.size() { Layout::New } else { Layout::Old };
        Ok(Self { calls, adapter: name.to_owned(), port: port.into(), id, layout })
    }
}

/// What a negative answer means.
fn errno(answer: c_int) -> Errno {
    match answer.checked_neg() {
        Some(raw) if raw > 1 => Errno::from_raw_os_error(raw),
        _ => Errno::IO,
    }
}

/// An answer that is a number, or not.
fn number(answer: c_int) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| errno(answer))
}

impl Device for LibIbUmad {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn register(&mut self, wanted: &Registration) -> Result<AgentId, Errno> {
        let mut mask = wanted.methods.words().map(|word| word as c_long);
        let (class, version) = (wanted.class.into(), wanted.class_version.into());
        // SAFETY: the mask has the 16 bytes that are read.
        let agent =
            unsafe { (self.calls.register)(self.id, class, version, wanted.rmpp_version, mask.as_mut_ptr()) };
        number(agent).map(|agent| AgentId(agent as u32))
    }

    fn unregister(&mut self, agent: AgentId) -> Result<(), Errno> {
        // SAFETY: two numbers, which the library looks up.
        let done = unsafe { (self.calls.unregister)(self.id, agent.0 as c_int) };
        number(done).map(|_| ())
    }

    fn write(&mut self, message: &[u8]) -> Result<usize, Errno> {
        let (header, mad) = Header::parse(self.layout, message).ok_or(Errno::INVAL)?;
        let length = c_int::try_from(mad.len()).map_err(|_| Errno::INVAL)?;
        // The library writes agent and times into it.
        let mut copy = message.to_vec();
        let (agent, timeout, retries) =
            (header.agent as c_int, header.timeout_ms as c_int, header.retries as c_int);
        // SAFETY: the buffer has a header and `length` bytes behind it.
        let done =
            unsafe { (self.calls.send)(self.id, agent, copy.as_mut_ptr().cast(), length, timeout, retries) };
        number(done).map(|_| message.len())
    }

    fn read(&mut self, into: &mut [u8], patience: Duration) -> Result<usize, Errno> {
        let header = self.layout.size();
        let room = into.len().checked_sub(header).and_then(|room| c_int::try_from(room).ok());
        let mut length = room.ok_or(Errno::INVAL)?;
        // 0 would be for ever.
        let patience = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX).max(1);
        // SAFETY: behind the header the buffer has the `length` bytes of room that are said.
        let agent =
            unsafe { (self.calls.recv)(self.id, into.as_mut_ptr().cast(), &raw mut length, patience) };
        if agent < 0 {
            return Err(match errno(agent) {
                Errno::TIMEDOUT => Errno::AGAIN,
                other => other,
            });
        }
        let size = header.saturating_add(usize::try_from(length).unwrap_or(0));
        Ok(size.min(into.len()))
    }

    fn administrator(&self) -> Result<Administrator, Errno> {
        self.calls.port(&self.adapter, self.port)
    }
}

impl Drop for LibIbUmad {
    fn drop(&mut self) {
        // SAFETY: the port was opened and is closed once.
        let _ = unsafe { (self.calls.close_port)(self.id) };
    }
}
