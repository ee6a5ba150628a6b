//! Macros of the C headers whose value is a cast or another name, which bindgen leaves out.

use crate::bindings::{_B_FALSE, _B_TRUE, boolean_t, dev_t, major_t};

/// `B_FALSE` of `sys/types.h`.
pub const B_FALSE: boolean_t = _B_FALSE;
/// `B_TRUE` of `sys/types.h`.
pub const B_TRUE: boolean_t = _B_TRUE;

/// Any device number (`sys/ddipropdefs.h`): the property belongs to the node, not to a minor.
pub const DDI_DEV_T_ANY: dev_t = -2_i64 as dev_t;
/// No device number (`sys/ddipropdefs.h`): the property is created for the node as a whole.
pub const DDI_DEV_T_NONE: dev_t = -1_i64 as dev_t;
/// No major number (`sys/ddipropdefs.h`).
pub const DDI_MAJOR_T_NONE: major_t = -1_i32 as major_t;
/// A major number not known yet (`sys/ddipropdefs.h`).
pub const DDI_MAJOR_T_UNKNOWN: major_t = 0;
