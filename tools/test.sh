#!/bin/sh
# Builds the modules, runs every test of the workspace, audits the modules, and ends with `N passed, N failed`.
#
# FOREIGN names a directory with illumos's own objects `mac_ib` and `ibp`; the tests that need them run only then.
#
# What a test binary reports is added up. One that crashed or did not build counts as one failure, and so does a failed
# build or audit of the modules.
set -u

cargo=${CARGO:-cargo}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
steps_failed=0

# Runs a step; when it fails that is counted, and the next step runs all the same.
step() {
	echo "== $*"
	"$@" || {
		echo "failed: $*"
		steps_failed=$((steps_failed + 1))
	}
}

step $cargo run --quiet -p kmod -- build
echo 0 >"$scratch/status"
# Runs tests; a failure is kept from the pipe below.
tests() {
	echo "== $cargo test $*"
	CARGO_TERM_COLOR=never $cargo test "$@" 2>&1 || echo 1 >"$scratch/status"
}
{
	tests --workspace --no-fail-fast
	if [ -n "${FOREIGN:-}" ]; then
		export FOREIGN
		tests -p conformance --features foreign --test foreign -- --show-output
		tests -p conformance --features foreign --test link -- --show-output c_driver
	else
		echo "foreign objects: not run (make test FOREIGN=DIR)"
	fi
} | tee "$scratch/log"
step $cargo run --quiet -p kmod -- audit

# `test result: FAILED.` comes from a binary that ran to its end; cargo's closing list also counts those that did not.
awk -v status="$(cat "$scratch/status")" -v steps="$steps_failed" '
	/^test result: / {
		for (i = 2; i <= NF; i++) {
			if ($i == "passed;") passed += $(i - 1)
			if ($i == "failed;") failed += $(i - 1)
		}
		if ($3 == "FAILED.") ended++
	}
	/^error: [0-9]+ targets? failed:/ { targets += $2 }
	END {
		if (targets > ended) failed += targets - ended
		if (status != 0 && failed == 0) failed = 1 # A build failed, or cargo itself.
		failed += steps
		printf "%d passed, %d failed\n", passed, failed
		exit failed != 0
	}' "$scratch/log"
