//! From a gate's sources to a root file system that boots.
