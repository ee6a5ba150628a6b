#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]
