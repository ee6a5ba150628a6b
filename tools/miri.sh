#!/bin/sh
# Runs the tests of the crates that have the driver's unsafe code, the safe wrappers over the kernel, under Miri: does a reference outlive
# what it is to, is memory lost, do two threads race? Everything above them forbids unsafe code.
set -eu

if ! cargo +nightly miri --version >/dev/null 2>&1; then
	echo "make miri needs: rustup toolchain install nightly --component miri,rust-src" >&2
	exit 1
fi
export MIRIFLAGS=-Zmiri-disable-isolation
for crate in kernel ibtf ibtf-provider gldv3; do
	echo "== $crate"
	RUSTFLAGS=-Adeprecated cargo +nightly miri test --quiet --lib -p $crate --target-dir target/miri
done
