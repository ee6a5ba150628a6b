#!/bin/sh
# Runs the tests of the pure crates under Miri. Random tests are cut down to a few cases: Miri looks for undefined behaviour, not
# for what more cases would find. The six longest tests of ipoib are left out: a second of them takes it half an hour.
set -eu

if ! cargo +nightly miri --version >/dev/null 2>&1; then
	echo "make miri needs: rustup toolchain install nightly --component miri,rust-src" >&2
	exit 1
fi
export PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation
for crate in ipoib sm fabric; do
	echo "== $crate"
	cargo +nightly miri test --quiet -p $crate --target-dir target/miri
done
