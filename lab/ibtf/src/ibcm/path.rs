//! Paths: one PathRecord query per pair of ports, and a small cache for single ones.

use fabric::{Gid, PortState};
use illumos_sys_hdrs::{
    B_FALSE, B_TRUE, IBT_HCA_PORT_NOT_ACTIVE, IBT_INSUFF_DATA, IBT_INVALID_PARAM, IBT_NO_HCAS_AVAILABLE,
    IBT_PATH_APM, IBT_PATH_AVAIL, IBT_PATH_MULTI_SVC_DEST, IBT_PATH_PERF, IBT_PATH_PKEY,
    IBT_PATH_RECORDS_NOT_FOUND, IBT_SERVICE_RECORDS_NOT_FOUND, IBT_SUCCESS, ib_mtu_t, ibt_adds_vect_t,
    ibt_cep_path_t, ibt_path_info_t, ibt_srate_e, ibt_status_t,
};
use sm::records::{PathRecord, ServiceRecord, parse_table, path_mask as mask, service_mask};
use sm::{Bound, Method, PKey, Sl};

use super::service::{SrvData, to_srv_data};
use super::{Ibcm, Local, status};
use crate::convert::gid_to_c;
use crate::ibtl::Ibtl;
use crate::saa::Request;

/// What a client wants a path to, and how. Zero and `None` mean that it does not matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// `ibt_path_flags_t`.
    pub flags: u32,
    pub dgids: Vec<Gid>,
    pub sgid: Gid,
    pub hca: u64,
    pub port: u8,
    /// By the name of a service.
    pub service_name: Option<[u8; 64]>,
    /// By its number.
    pub service_id: u64,
    pub p_key: u16,
    pub sl: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub t_class: u8,
    pub mtu: Bound,
    pub rate: Bound,
    pub lifetime: Bound,
    /// At most so many.
    pub max: u8,
}

/// A path as the client is told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Path {
    pub hca: u64,
    pub service: Option<(u64, SrvData)>,
    pub record: PathRecord,
    pub port: u8,
    pub sgid_ix: u32,
    pub p_key_ix: u16,
    pub path_bits: u8,
}

/// Somewhere to go to: by the client's choice, or because a service is there.
#[derive(Clone)]
struct Destination {
    gid: Gid,
    service: Option<(u64, SrvData)>,
}

/// Paths with a longer lifetime are not used.
const LONGEST_LIFETIME: u8 = 20;

impl Wanted {
    const fn has(&self, flag: illumos_sys_hdrs::ibt_path_flags_e) -> bool {
        self.flags & flag.0 != 0
    }

    const fn by_service(&self) -> bool {
        self.service_name.is_some() || self.service_id != 0
    }

    /// Whether this may be asked at all.
    pub fn check(&self) -> Result<(), ibt_status_t> {
        let nowhere = self.dgids.is_empty() && !self.by_service();
        let zero = self.dgids.iter().any(|gid| gid.prefix == 0 || gid.guid == 0);
        let keyless = self.has(IBT_PATH_PKEY) && !PKey(self.p_key).is_valid();
        let both = self.has(IBT_PATH_AVAIL) && self.has(IBT_PATH_PERF);
        // Several destinations of one service: only a service has them, and only if none is named.
        let multi = self.has(IBT_PATH_MULTI_SVC_DEST) && (!self.by_service() || !self.dgids.is_empty());
        if self.max == 0 || nowhere || zero || keyless || both || multi {
            return Err(IBT_INVALID_PARAM);
        }
        Ok(())
    }

    /// Only a question for one path to one port is answered from memory.
    const fn is_simple(&self) -> bool {
        self.max == 1 && self.dgids.len() == 1 && !self.by_service()
    }

    /// The query for a pair of ports, with the components that matter.
    fn request(&self, source: Gid, destination: Gid, paths: usize) -> Request {
        let record = PathRecord {
            dgid: destination,
            sgid: source,
            flow_label: self.flow_label,
            hop_limit: self.hop_limit,
            t_class: self.t_class,
            reversible: true,
            numb_path: u8::try_from(paths).unwrap_or(0x7f).min(0x7f),
            p_key: PKey(self.p_key),
            sl: Sl::truncating(self.sl),
            mtu: self.mtu,
            rate: self.rate,
            lifetime: self.lifetime,
            ..PathRecord::default()
        };
        let parts = [
            (self.has(IBT_PATH_PKEY), mask::P_KEY),
            (self.sl != 0, mask::SL),
            (self.flow_label != 0, mask::FLOW_LABEL),
            (self.hop_limit != 0, mask::HOP_LIMIT),
            (self.t_class != 0, mask::T_CLASS),
            (self.mtu.value != 0, mask::MTU_SELECTOR | mask::MTU),
            (self.rate.value != 0, mask::RATE_SELECTOR | mask::RATE),
            (self.lifetime.value != 0, mask::LIFETIME_SELECTOR | mask::LIFETIME),
        ];
        let asked = mask::DGID | mask::SGID | mask::REVERSIBLE | mask::NUMB_PATH;
        let given = parts.iter().filter(|(there, _)| *there).fold(asked, |all, (_, bits)| all | bits);
        Request::of(Method::GET_TABLE, given, &record)
    }
}

impl Ibcm {
    /// The paths there are, and success or why there are fewer than asked for.
    pub(super) fn get_paths(&self, wanted: &Wanted) -> (ibt_status_t, Vec<Path>) {
        if wanted.is_simple()
            && let Some(path) = self.paths.lock().get(fakekernel::now(), wanted)
        {
            return (IBT_SUCCESS, vec![path]);
        }
        match self.look_for(wanted) {
            Ok(paths) => {
                if wanted.is_simple()
                    && let Some(path) = paths.first()
                {
                    self.paths.lock().put(wanted.clone(), path.clone());
                }
                // The fabric has one way between two ports: there is never an alternate path.
                let enough = paths.len() >= usize::from(wanted.max) && !wanted.has(IBT_PATH_APM);
                (if enough { IBT_SUCCESS } else { IBT_INSUFF_DATA }, paths)
            }
            Err(status) => (status, Vec::new()),
        }
    }

    /// At least one path, or why not.
    fn look_for(&self, wanted: &Wanted) -> Result<Vec<Path>, ibt_status_t> {
        let sources = self.sources(wanted)?;
        let destinations = self.destinations(wanted, &sources)?;
        let mut paths = Vec::new();
        let mut failure = IBT_PATH_RECORDS_NOT_FOUND;
        for destination in &destinations {
            for source in &sources {
                let missing = usize::from(wanted.max) - paths.len();
                if missing == 0 {
                    return Ok(paths);
                }
                match self.between(wanted, source, destination, missing) {
                    Ok(found) => paths.extend(found.into_iter().take(missing)),
                    Err(status) => failure = status,
                }
            }
        }
        if paths.is_empty() { Err(failure) } else { Ok(paths) }
    }

    /// The ports a path may start from.
    fn sources(&self, wanted: &Wanted) -> Result<Vec<Local>, ibt_status_t> {
        let mut known = false;
        let mut sources = Vec::new();
        for device in Ibtl::of(&self.kernel).all_devices() {
            if wanted.hca != 0 && wanted.hca != device.guid {
                continue;
            }
            for attr in device.cached_ports() {
                let gid = if wanted.sgid == Gid::default() {
                    attr.gids.first().copied()
                } else {
                    Some(wanted.sgid)
                };
                let at = attr.gids.iter().position(|own| Some(*own) == gid);
                let meant = wanted.hca == 0 || wanted.port == 0 || wanted.port == attr.num.0;
                let Some(at) = at.filter(|_| meant) else { continue };
                known = true;
                if attr.state == PortState::Active {
                    sources.push(Local { device: device.clone(), attr, sgid_ix: at as u32 });
                }
            }
        }
        match (sources.is_empty(), known) {
            (false, _) => Ok(sources),
            (true, true) => Err(IBT_HCA_PORT_NOT_ACTIVE),
            (true, false) => Err(IBT_NO_HCAS_AVAILABLE),
        }
    }

    /// Where a path may lead to. A service is looked for from each source until somebody knows of it.
    fn destinations(&self, wanted: &Wanted, sources: &[Local]) -> Result<Vec<Destination>, ibt_status_t> {
        if !wanted.by_service() {
            return Ok(wanted.dgids.iter().map(|gid| Destination { gid: *gid, service: None }).collect());
        }
        let mut failure = IBT_SERVICE_RECORDS_NOT_FOUND;
        for source in sources {
            match self.services_known_to(wanted, source) {
                Ok(found) if !found.is_empty() => return Ok(found),
                Ok(_) => {}
                Err(status) => failure = status,
            }
        }
        Err(failure)
    }

    fn services_known_to(&self, wanted: &Wanted, source: &Local) -> Result<Vec<Destination>, ibt_status_t> {
        let by_id = wanted.service_id != 0;
        let record = ServiceRecord {
            service_id: wanted.service_id,
            service_gid: sm::Gid::ZERO,
            p_key: PKey(wanted.p_key),
            lease: 0,
            key: [0; 16],
            name: wanted.service_name.unwrap_or([0; 64]),
            data: [0; 64],
        };
        let parts = [
            (by_id, service_mask::SERVICE_ID),
            (wanted.service_name.is_some(), service_mask::NAME),
            (wanted.has(IBT_PATH_PKEY), service_mask::P_KEY),
        ];
        let given = parts.iter().filter(|(there, _)| *there).fold(0, |all, (_, bits)| all | bits);
        let answer =
            self.ask(source, &Request::of(Method::GET_TABLE, given, &record)).map_err(status::of_service)?;
        let records: Vec<ServiceRecord> = parse_table(&answer.data, answer.header.attribute_offset);
        let named = |gid: Gid| wanted.dgids.is_empty() || wanted.dgids.contains(&gid);
        let all = records.iter().map(|record| Destination {
            gid: record.service_gid,
            service: Some((record.service_id, to_srv_data(&record.data))),
        });
        let all = all.filter(|destination| named(destination.gid));
        let limit = if wanted.has(IBT_PATH_MULTI_SVC_DEST) { usize::MAX } else { wanted.dgids.len().max(1) };
        Ok(all.take(limit).collect())
    }

    fn between(
        &self,
        wanted: &Wanted,
        source: &Local,
        destination: &Destination,
        paths: usize,
    ) -> Result<Vec<Path>, ibt_status_t> {
        let sgid = source.gid();
        let is_elsewhere = !destination.gid.is_multicast() && destination.gid.prefix != sgid.prefix;
        if is_elsewhere && !self.asks_beyond() {
            return Ok(Vec::new());
        }
        let request = wanted.request(sgid, destination.gid, paths);
        let answer = self.ask(source, &request).map_err(status::of_paths)?;
        let records: Vec<PathRecord> = parse_table(&answer.data, answer.header.attribute_offset);
        let usable = records.into_iter().filter_map(|record| usable(source, record));
        Ok(usable.map(|path| Path { service: destination.service, ..path }).collect())
    }
}

impl Local {
    /// The GID it was found by.
    pub(super) fn gid(&self) -> Gid {
        self.attr.gids.get(self.sgid_ix as usize).copied().unwrap_or_default()
    }
}

/// A record as a path, unless it is one ibcm discards.
fn usable(source: &Local, record: PathRecord) -> Option<Path> {
    let p_key_ix = source.p_key_index(record.p_key)?;
    let mtu = sm::MtuCode(record.mtu.value).is_valid();
    let usable = record.lifetime.value <= LONGEST_LIFETIME && mtu && record.rate.value != 0;
    usable.then(|| Path {
        hca: source.device.guid,
        service: None,
        port: source.attr.num.0,
        sgid_ix: source.sgid_ix,
        p_key_ix,
        // Eight bits of the difference, garbage where the source LID is 0: that is what clients get.
        path_bits: record.slid.0.wrapping_sub(source.attr.lid.0) as u8,
        record,
    })
}

impl Path {
    /// As the interface has it.
    pub(super) fn to_c(&self) -> ibt_path_info_t {
        let record = &self.record;
        let routed = record.sgid.prefix != record.dgid.prefix;
        let mut vector = ibt_adds_vect_t {
            av_dgid: gid_to_c(record.dgid),
            av_sgid: gid_to_c(record.sgid),
            av_srate: ibt_srate_e(record.rate.value.into()),
            av_tclass: record.t_class,
            av_hop: record.hop_limit,
            av_port_num: self.port,
            av_opaque1: if routed { B_TRUE } else { B_FALSE },
            av_opaque2: record.dlid.0,
            av_opaque3: self.path_bits,
            av_opaque4: self.sgid_ix,
            ..Default::default()
        };
        vector.set_av_srvl(record.sl.get());
        vector.set_av_flow(record.flow_label);
        let (pi_sid, data) = self.service.unwrap_or_default();
        ibt_path_info_t {
            pi_hca_guid: self.hca,
            pi_sid,
            pi_sdata: data.to_c(),
            pi_prim_cep_path: ibt_cep_path_t {
                cep_adds_vect: vector,
                cep_pkey_ix: self.p_key_ix,
                cep_hca_port_num: self.port,
                // Twice the lifetime: there and back.
                cep_cm_opaque1: record.lifetime.value + 1,
            },
            pi_path_mtu: ib_mtu_t(record.mtu.value.into()),
            pi_prim_pkt_lt: record.lifetime.value,
            ..Default::default()
        }
    }
}
