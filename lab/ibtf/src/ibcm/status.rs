//! What subnet administration's refusals become in IBTF. Much is lost on the way: a client cannot tell a group that does not
//! exist from one it may not join.

use illumos_sys_hdrs::{
    IBT_HCA_PORT_NOT_ACTIVE, IBT_IBMF_TIMEOUT, IBT_MC_GROUP_INVALID, IBT_MCG_RECORDS_NOT_FOUND,
    IBT_PATH_RECORDS_NOT_FOUND, IBT_SERVICE_RECORDS_NOT_FOUND, ibt_status_e, ibt_status_t,
};
use sm::Status;

use crate::saa::SaError;

/// A failure of ibmf (`ibt_get_module_failure`: bit 31 and the module's number from bit 27 on).
pub(crate) const IBMF_FAILURE: ibt_status_t = ibt_status_e(0x9000_0000);

/// Of `ibt_join_mcg` and `ibt_query_mcg`.
pub(crate) fn of_group(error: SaError) -> ibt_status_t {
    general(error, IBT_MCG_RECORDS_NOT_FOUND)
}

/// Of `ibt_get_paths`.
pub(crate) fn of_paths(error: SaError) -> ibt_status_t {
    general(error, IBT_PATH_RECORDS_NOT_FOUND)
}

/// Of `ibt_bind_service` and of looking for services.
pub(crate) fn of_service(error: SaError) -> ibt_status_t {
    general(error, IBT_SERVICE_RECORDS_NOT_FOUND)
}

/// Of `ibt_leave_mcg`: whatever went wrong, the group is invalid.
pub(crate) fn of_leave(error: SaError) -> ibt_status_t {
    match error {
        SaError::NoSession => IBT_HCA_PORT_NOT_ACTIVE,
        _ => IBT_MC_GROUP_INVALID,
    }
}

fn general(error: SaError, not_found: ibt_status_t) -> ibt_status_t {
    match error {
        SaError::NoSession => IBT_HCA_PORT_NOT_ACTIVE,
        SaError::Timeout => IBT_IBMF_TIMEOUT,
        SaError::Lost | SaError::NotOffered => IBMF_FAILURE,
        SaError::Refused(status) => refused(status, not_found),
    }
}

fn refused(status: Status, not_found: ibt_status_t) -> ibt_status_t {
    match status {
        Status::NO_RESOURCES
        | Status::TOO_MANY_RECORDS
        | Status::REQ_INVALID_GID
        | Status::REQ_INSUFFICIENT_COMPONENTS => IBMF_FAILURE,
        // Bits 2 to 4: what is asked for is not supported, or a field is invalid.
        status if status.0 & 0x1c != 0 => IBMF_FAILURE,
        _ => not_found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_becomes_what_ibcm_makes_of_it() {
        let rows = [
            (SaError::Refused(Status::NO_RESOURCES), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Refused(Status::REQ_INVALID), 15, 13, 902),
            (SaError::Refused(Status::NO_RECORDS), 15, 13, 902),
            (SaError::Refused(Status::TOO_MANY_RECORDS), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Refused(Status::REQ_INVALID_GID), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Refused(Status::REQ_INSUFFICIENT_COMPONENTS), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Refused(Status::REQ_DENIED), 15, 13, 902),
            (SaError::Refused(Status(0x4200)), 15, 13, 902),
            (SaError::Refused(Status::UNSUPPORTED_METHOD_ATTRIBUTE), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Refused(Status::INVALID_FIELD), 0x9000_0000, 0x9000_0000, 902),
            (SaError::Lost, 0x9000_0000, 0x9000_0000, 902),
            (SaError::NotOffered, 0x9000_0000, 0x9000_0000, 902),
            (SaError::Timeout, 10, 10, 902),
            (SaError::NoSession, 206, 206, 206),
        ];
        for (error, group, paths, leave) in rows {
            assert_eq!(
                (of_group(error).0, of_paths(error).0, of_leave(error).0),
                (group, paths, leave),
                "{error:?}"
            );
        }
    }
}
