//! What is tried on a kernel, case by case.
