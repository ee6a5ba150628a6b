#!/bin/sh
# Runs everything that the project has to try itself with, one after the other, and keeps a summary: nightly.sh
#
# MINUTES is how long each search of schedules goes on, 60 if not said. SEED chooses what is searched: the number of today's date if not
# said, so that no two nights are the same. GATE names an illumos gate, whose kernel is then built and booted; FOREIGN a directory with
# illumos's own objects mac_ib and ibp. Without them the summary says that those parts were left out.
#
# What each part says is in target/nightly/DATE, with summary.md. It ends with 1 if a part failed.
set -u

make=${MAKE:-make}
minutes=${MINUTES:-60}
seed=${SEED:-$(date +%Y%m%d)}
out=$(pwd)/target/nightly/$(date +%Y-%m-%d)
fuzz_minutes=1
failed=0

for tool in 'cargo fuzz --version|cargo install cargo-fuzz' \
	'cargo +nightly miri --version|rustup toolchain install nightly --component miri,rust-src' \
	'valgrind --version|apt-get install valgrind'; do
	# shellcheck disable=SC2086 # A command.
	${tool%|*} >/dev/null 2>&1 || { echo "make nightly needs: ${tool#*|}" >&2 && exit 1; }
done

rm -rf "$out"
mkdir -p "$out"
{
	echo "# The night of $(date +%Y-%m-%d)"
	echo
	echo "Commit $(git describe --always --dirty), seed $seed, $(nproc) processors."
	echo
	echo '| part | result | seconds | last line |'
	echo '|---|---|---|---|'
} >"$out/summary.md"

row() {
	echo "| $1 | $2 | $3 | $4 |" | tee -a "$out/summary.md"
}

# $1: the part's name; the rest: the command.
part() {
	name=$1
	shift
	begun=$(date +%s)
	if "$@" >"$out/$name.log" 2>&1; then
		result=well
	else
		result='**failed**'
		failed=1
	fi
	last=$(grep -v '^ *$' "$out/$name.log" | tail -n 1 | tr '|' '/' | cut -c 1-100)
	row "$name" "$result" "$(($(date +%s) - begun))" "$last"
}

part lint "$make" lint
part test "$make" test WHOLE=1 REQUIRE=linux,opensm,valgrind ${FOREIGN:+FOREIGN="$FOREIGN"}
[ -n "${FOREIGN:-}" ] || row foreign 'left out' 0 'FOREIGN=directory with illumos'\''s own objects'
part miri "$make" miri
for target in $(sed -n 's/^    ("\([a-z_]*\)", [a-z_]*),$/\1/p' tests/fuzz/src/lib.rs); do
	part "fuzz-$target" "$make" fuzz TARGET="$target" MINUTES=$fuzz_minutes
done
part pairs "$make" campaign PAIRS=1 SEED="$seed"
part schedules "$make" campaign MINUTES="$minutes" SEED="$seed"
part fabrics "$make" campaign FABRICS=1 MINUTES="$minutes" SEED="$seed"
part planted "$make" search-strength MINUTES="$minutes"
if [ -n "${GATE:-}" ]; then
	for identity in ibp ibd; do
		part "metal-$identity" "$make" metal GATE="$GATE" DEBUG=1 SUITE=full IDENTITY=$identity
	done
else
	row metal 'left out' 0 'GATE=directory of an illumos gate'
fi
echo "$out/summary.md"
exit $failed
