//! The Rust type of each integer macro.
//!
//! A C macro has no type worth keeping; its users do. The table gives each family the type of the parameter or field
//! that it is passed in, so that Rust callers need no casts. What no row names keeps bindgen's `u32`, `u64` or `i32`.

use bindgen::callbacks::{DeriveInfo, IntKind, ParseCallbacks, TypeKind};

/// Prefix of the macro's name, and the type its users have.
const FAMILIES: &[(&str, IntKind)] = &[
    ("CB_CL_", IntKind::Int),
    ("CB_CODE_", IntKind::Int),
    ("CB_REV", IntKind::Int),
    ("CE_", IntKind::Int),
    ("DDI_INTR_", IntKind::UInt),
    ("DDI_MODEL_", MODEL),
    ("DDI_PROP_", IntKind::Int),
    ("DDI_SOFTINT_", IntKind::Int),
    ("DDI_", IntKind::Int),
    ("DEVO_REV", IntKind::Int),
    ("DLS_SAP_", IntKind::U32),
    ("D_", IntKind::Int),
    ("E2BIG", IntKind::Int),
    ("IBTI_V", IntKind::UInt),
    ("IBT_WC_CKSUM_OK", WC_FLAGS),
    ("IBT_WC_DETAIL_", IntKind::U32),
    ("IBT_WC_DIF_ERROR", WC_FLAGS),
    ("IBT_WC_FEXCH_FMT", WC_FLAGS),
    ("IBT_WC_GRH_PRESENT", WC_FLAGS),
    ("IBT_WC_IMMED_DATA_PRESENT", WC_FLAGS),
    ("IBT_WC_NO_FLAGS", WC_FLAGS),
    ("IBT_WC_RKEY_INVALIDATED", WC_FLAGS),
    ("IBT_WC_", named("ibt_wc_status_t")),
    ("IBT_WRC_", named("ibt_wrc_opcode_t")),
    ("IBT_WR_", named("ibt_wr_flags_t")),
    ("IB_GID_", IntKind::U64),
    ("IB_LID_", named("ib_lid_t")),
    ("IB_MC_JSTATE_", IntKind::U8),
    ("IB_MC_QPN", named("ib_qpn_t")),
    ("IB_MC_SCOPE_", IntKind::U8),
    ("IB_PKEY_", named("ib_pkey_t")),
    ("IB_QPN_MASK", named("ib_qpn_t")),
    ("IB_GSI_QKEY", named("ib_qkey_t")),
    ("IB_SID_", IntKind::U64),
    ("IB_EUI64_", IntKind::U64),
    ("FMODELS", MODEL),
    ("DATAMODEL_", MODEL),
    ("GLOBAL_ZONEID", named("zoneid_t")),
    ("HCKSUM_", IntKind::U32),
    ("IB_SVC_", UNSIGNED_SIZE),
    ("IPOIB_", UNSIGNED_SIZE),
    ("KM_", IntKind::Int),
    ("KSTAT_DATA_", IntKind::U8),
    ("KSTAT_FLAG_", IntKind::U8),
    ("KSTAT_TYPE_", IntKind::U8),
    ("LOCK_LEVEL", IntKind::Int),
    ("MAC_IB_GID_SIZE", UNSIGNED_SIZE),
    ("MAC_PROP_PERM_", IntKind::U8),
    ("MAXLINKNAMELEN", UNSIGNED_SIZE),
    ("MAXMACADDRLEN", UNSIGNED_SIZE),
    ("MH_", IntKind::Int),
    ("MI_", IntKind::Int),
    ("MODREV_", IntKind::Int),
    ("M_", IntKind::U8),
    ("BPRI_", IntKind::UInt),
    ("PIL_MAX", IntKind::Int),
    ("TASKQ_DEFAULTPRI", IntKind::Int),
    ("TS_", IntKind::Int),
];

const MODEL: IntKind = named("model_t");
const WC_FLAGS: IntKind = named("ibt_wc_flags_t");
const UNSIGNED_SIZE: IntKind = IntKind::Custom { name: "usize", is_signed: false };

const fn named(name: &'static str) -> IntKind {
    IntKind::Custom { name, is_signed: false }
}

/// Families named by a suffix, for the transport services (`IBT_UD_SRV` and its like).
const SERVICE_SUFFIX: (&str, IntKind) = ("_SRV", named("ibt_tran_srv_t"));

/// Chooses the type of every integer macro, and lets an enumeration's newtype start as 0.
#[derive(Debug)]
pub struct MacroTypes;

impl ParseCallbacks for MacroTypes {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        if is_errno(name) {
            return Some(IntKind::Int);
        }
        if name.starts_with("IBT_") && name.ends_with(SERVICE_SUFFIX.0) {
            return Some(SERVICE_SUFFIX.1);
        }
        FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, kind)| *kind)
    }

    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        if info.kind == TypeKind::Enum { vec!["Default".into()] } else { Vec::new() }
    }
}

/// `sys/errno.h` is the only header whose macros are an `E` followed by capitals and digits alone.
fn is_errno(name: &str) -> bool {
    let family = |p: &str| name.starts_with(p);
    name.starts_with('E')
        && !family("ETHERTYPE")
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}
