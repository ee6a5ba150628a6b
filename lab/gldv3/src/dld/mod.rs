//! `dld`: the ioctls of `/dev/dld` that drivers register (`DLD/dld_drv.c`).

mod ioctl;

pub(crate) use ioctl::{exports, ioctl};
