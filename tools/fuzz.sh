#!/bin/sh
# Lets libFuzzer look for inputs that break a target of tests/fuzz. fuzz.sh TARGET MINUTES
#
# What it keeps beyond the committed corpus goes to target/fuzz; a failing input is there too, and named at the end.
set -eu

if [ -z "${1:-}" ]; then
	echo "TARGET= is one of $(sed -n 's/^    ("\([a-z_]*\)", [a-z_]*),$/\1/p' tests/fuzz/src/lib.rs | tr '\n' ' ')" >&2
	exit 1
fi
target=$1
minutes=${2:-5}
cargo=${CARGO:-cargo}
if ! $cargo fuzz --version >/dev/null 2>&1; then
	echo "make fuzz needs: cargo install cargo-fuzz" >&2
	exit 1
fi
root=$(pwd)
found=$root/target/fuzz/$target
mkdir -p "$found/corpus"
cd tests/fuzz
# Without a sanitizer stable Rust will do: the code under test is safe or is checked by the lab.
TARGET=$target $cargo fuzz run --sanitizer none any "$found/corpus" "$root/tests/fuzz/corpus/$target" -- \
	-max_total_time=$((minutes * 60)) -artifact_prefix="$found/" -max_len=4096
