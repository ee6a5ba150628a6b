#!/bin/sh
# Builds the modules, runs every test of the workspace (tools/testrun), audits the modules, and ends with two lines: `N passed, N failed`, and
# `N left out: ` with each test that could not run here, and why.
#
# FOREIGN names a directory with illumos's own objects `mac_ib` and `ibp`; the tests that need them run only then.
# REQUIRE names, with commas, what this machine must have: linux (root, /dev/net/tun), opensm, valgrind. A test that would be left out
# for want of one of them fails.
#
# WHOLE=1 tries all seeds where a part of them is the rule, and interrupts scripts at each place instead of each 23rd one (CONTRIBUTING.md lists
# what does more with it).
#
# What a test program reports is added up. One that crashed or did not build counts as one failure, and so does a failed
# build or audit of the modules.
set -u

cargo=${CARGO:-cargo}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
steps_failed=0

for part in $(echo "${REQUIRE:-}" | tr , ' '); do
	case $part in
	linux | opensm | valgrind) ;;
	*)
		echo "REQUIRE=$REQUIRE: expected some of linux, opensm, valgrind" >&2
		exit 2
		;;
	esac
done
# Tests write down here that they were left out: `NAME<tab>why`.
export LEFT_OUT="$scratch/left-out"
: >"$LEFT_OUT"

# Runs a step; when it fails that is counted, and the next step runs all the same.
step() {
	echo "== $*"
	"$@" || {
		echo "failed: $*"
		steps_failed=$((steps_failed + 1))
	}
}

# The modules, and those with a call for each load and store, for what only they show. A module is linked by one processor, so the tests are
# compiled meanwhile; whether that went well is told when they are run.
compile() {
	CARGO_MANIFEST_DIR=$PWD/tools/kmod sh -ec '"$1" build; "$1" build --races' - "${CARGO_TARGET_DIR:-target}/debug/kmod" &
	$cargo test --quiet --workspace --no-run >/dev/null 2>&1
	wait $!
}
step $cargo build --quiet -p kmod
step compile
echo 0 >"$scratch/status"
# Runs tests; a failure is kept from the pipe below.
tests() {
	echo "== $cargo $*"
	CARGO_TERM_COLOR=never $cargo "$@" 2>&1 || echo 1 >"$scratch/status"
}
tests run --quiet -p testrun | tee "$scratch/log"
if [ -n "${FOREIGN:-}" ]; then
	export FOREIGN
	tests test -p conformance --features foreign --test foreign -- --show-output | tee -a "$scratch/log"
	tests test -p conformance --features foreign --test link -- --show-output c_driver | tee -a "$scratch/log"
else
	printf 'illumos'\''s own objects\tmake test FOREIGN=DIR\n' >>"$LEFT_OUT"
fi
step $cargo run --quiet -p kmod -- audit

# `test result: FAILED.` comes from a binary that ran to its end; cargo's closing list also counts those that did not. A test that was
# left out has passed for libtest, which knows no third way.
awk -F '\t' -v status="$(cat "$scratch/status")" -v steps="$steps_failed" '
	FILENAME == ARGV[2] {
		if (seen[$0]++) next
		if ($3 != "") passed--
		left_out++
		named = named (left_out > 1 ? "; " : ": ") $1 " (" $2 ")"
		next
	}
	/^test result: / {
		words = split($0, word, " ")
		for (i = 2; i <= words; i++) {
			if (word[i] == "passed;") passed += word[i - 1]
			if (word[i] == "failed;") failed += word[i - 1]
		}
		if (word[3] == "FAILED.") ended++
	}
	/^error: [0-9]+ targets? failed:/ { split($0, word, " "); targets += word[2] }
	END {
		if (targets > ended) failed += targets - ended
		if (status != 0 && failed == 0) failed = 1 # A build failed, or cargo itself.
		failed += steps
		printf "%d passed, %d failed\n%d left out%s\n", passed, failed, left_out, named
		exit failed != 0
	}' "$scratch/log" "$LEFT_OUT"
