//! A kernel that runs: QEMU, the console, and the init that does what it is asked.
