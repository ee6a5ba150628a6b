#!/bin/sh
# Runs everything that the project has to try itself with and keeps a summary: nightly.sh
#
# MINUTES is how long schedules are searched, 60 if not said; fabrics and planted faults have half of that each. SEED chooses what is
# searched: the number of today's date if not said, so that no two nights are the same. GATE names an illumos gate, whose kernel is then built
# and booted; FOREIGN a directory with illumos's own objects mac_ib and ibp. Without them the summary says that those parts were left out.
#
# What each part of a commit says is in target/nightly/COMMIT, with summary.md. A part that was well is not run again: a night that was
# ended goes on where it was. This ends with 1 if a part failed.
set -u

make=${MAKE:-make}
minutes=${MINUTES:-60}
half=$(((minutes + 1) / 2))
commit=$(git describe --always --dirty)
out=$(pwd)/target/nightly/$commit
fuzz_minutes=1

for tool in 'cargo fuzz --version|cargo install cargo-fuzz' \
	'cargo +nightly miri --version|rustup toolchain install nightly --component miri,rust-src' \
	'valgrind --version|apt-get install valgrind'; do
	# shellcheck disable=SC2086 # A command.
	${tool%|*} >/dev/null 2>&1 || { echo "make nightly needs: ${tool#*|}" >&2 && exit 1; }
done

# Of what is not committed nobody can say whether it is the same.
case $commit in *-dirty) rm -rf "$out" ;; esac
mkdir -p "$out"
[ -e "$out/seed" ] || echo "${SEED:-$(date +%Y%m%d)}" >"$out/seed"
read -r seed <"$out/seed"
{
	echo "# The night of $commit"
	echo
	echo "Seed $seed, $minutes minutes of schedules, $(nproc) processors."
	echo
	echo '| part | result | seconds | last line | begun |'
	echo '|---|---|---|---|---|'
} >"$out/summary.md"

row() {
	echo "| $1 | $2 | $3 | $4 | $5 |"
}

# $1: the part's name; the rest: the command.
part() {
	name=$1
	shift
	if ! grep -qs '^| [a-z_-]* | well |' "$out/$name.row"; then
		begun=$(date +%s)
		if "$@" >"$out/$name.log" 2>&1; then result=well; else result='**failed**'; fi
		last=$(grep -v -e '^ *$' -e '^make\[[0-9]*\]: ' "$out/$name.log" | tail -n 1 | tr '|' '/' | cut -c 1-100)
		row "$name" "$result" "$(($(date +%s) - begun))" "$last" "$(date -d "@$begun" '+%F %H:%M')" >"$out/$name.row"
	fi
	tee -a "$out/summary.md" <"$out/$name.row"
}

# $1: the part's name; $2: what to say for it.
left_out() {
	row "$1" 'left out' 0 "$2" - | tee -a "$out/summary.md"
}

# What keeps one processor busy at most.
beside() {
	if [ -n "${GATE:-}" ]; then
		for identity in ibp ibd; do
			part "metal-$identity" "$make" metal GATE="$GATE" DEBUG=1 SUITE=full IDENTITY=$identity
		done
	else
		left_out metal 'GATE=directory of an illumos gate'
	fi
	for target in $(sed -n 's/^    ("\([a-z_]*\)", [a-z_]*),$/\1/p' tests/fuzz/src/lib.rs); do
		part "fuzz-$target" "$make" fuzz TARGET="$target" MINUTES=$fuzz_minutes
	done
}

part lint "$make" lint
part miri "$make" miri
beside &
# What finds most comes first.
part schedules "$make" campaign MINUTES="$minutes" SEED="$seed"
part fabrics "$make" campaign FABRICS=1 MINUTES="$half" SEED="$seed"
part test "$make" test WHOLE=1 REQUIRE=linux,opensm,valgrind ${FOREIGN:+FOREIGN="$FOREIGN"}
[ -n "${FOREIGN:-}" ] || left_out foreign 'FOREIGN=directory with illumos'\''s own objects'
part pairs "$make" campaign PAIRS=1 SEED="$seed"
part planted "$make" search-strength MINUTES="$half"
wait
echo "$out/summary.md"
! grep -qs '\*\*failed' "$out"/*.row
