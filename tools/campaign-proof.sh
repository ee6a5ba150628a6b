#!/bin/sh
# Shows that a campaign finds what is broken: plants each fault of tests/planted in a copy of the tree, builds the modules
# there, and searches until it is found: those of tests/planted/schedules among schedules for at most an hour, those of
# tests/planted/fabrics in at most 2,000 random fabrics. campaign-proof.sh [MINUTES]
#
# The copy's modules are judged by this tree's ibdlab. What was found and made small is left in target/campaign-proof.
set -eu

minutes=${1:-60}
cargo=${CARGO:-cargo}
root=$(pwd)
lab=$root/target/campaign-proof/ibdlab
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$root/target/campaign-proof"
$cargo build --quiet -p ibdlab
rm -f "$lab"
cp "${CARGO_TARGET_DIR:-$root/target}/debug/ibdlab" "$lab"

missed=0
for planted in "$root"/tests/planted/*/*.patch; do
	name=$(basename "$planted" .patch)
	case $planted in
	*/fabrics/*) search='--fabrics --schedules 2000' ;;
	*) search="--minutes $minutes" ;;
	esac
	tree=$scratch/$name
	mkdir "$tree"
	git -C "$root" ls-files -z | tar -C "$root" --null -T - -cf - | tar -C "$tree" -xf -
	(cd "$tree" && git apply "$planted" && $cargo run --quiet -p kmod -- build >/dev/null)
	out=$root/target/campaign-proof/$name
	rm -rf "$out"
	echo "== $name: $(head -1 "$planted")"
	# shellcheck disable=SC2086 # Several words.
	if "$lab" campaign $search --until-found --seed 1 --proto "$tree/proto/kernel" --counting /nonexistent --out "$out"; then
		echo "not found: $name"
		missed=$((missed + 1))
	fi
	ls "$out"/findings/*.toml || missed=$((missed + 1))
done
exit "$missed"
