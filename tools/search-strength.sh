#!/bin/sh
# Measures how strong the search of `ibdlab campaign` is: search-strength.sh [MINUTES | --proof | --seeds]
#
# Plants the faults of tests/planted one at a time in a copy of the tree, builds the modules there, and searches for each of them
# with several seeds: how many schedules it takes, by which strategy, and what is found. Faults of tests/planted/schedules are
# searched for among schedules, those of tests/planted/fabrics among random fabrics. The copy's modules are judged by this tree's
# ibdlab.
#
# What is measured of one commit is in target/search-strength/COMMIT: a directory for each fault and seed, table.md and table.json.
# What is there already is not measured again, so a run that was ended, or has had its MINUTES, goes on where it was.
#
# With --proof one seed and 10,000 schedules, 2,000 fabrics, are spent on each fault, and it is a failure if one is not found,
# but for those whose text begins with "Not found today".
#
# With --seeds nothing is searched: six of the programs that `make test` runs with few seeds are run on each fault, without three of their tests,
# and the table seeds.md says which of them find it.
#
# SEEDS, SCHEDULES and FAULTS (names, or patterns of them) say less or more; PAIRS=1 searches the pairs of events instead of what is drawn;
# STRATEGY is the only way to choose who runs next; IBDLAB is another program, LABEL another name for COMMIT.
#
# The modules of the next faults are built while the first ones are searched for: JOBS searches and as many builds at a time (as many as there
# are processors). A search has one worker, so it comes upon the same fault at the same schedule whenever it is repeated.
set -eu

proof=
suite=
minutes=${1:-0}
[ "$minutes" != --proof ] || { proof=yes && minutes=0; }
[ "$minutes" != --seeds ] || { suite=yes && minutes=0; }
seeds=${SEEDS:-$([ "$proof" ] && echo 1 || echo '1 2 3')}
schedules=${SCHEDULES:-$([ "$proof" ] && echo 10000 || echo 300)}
cargo=${CARGO:-cargo}
root=$(pwd)
jobs=${JOBS:-$(nproc)}
label=${LABEL:-$(git describe --always --dirty)}${PAIRS:+-pairs}${STRATEGY:+-$STRATEGY}${proof:+-proof}
out=$root/target/search-strength/$label
trees=$root/target/search-strength/trees
shipped=${PAIRS:-$suite}
objects=$root/target/search-strength/objects${shipped:+-shipped}
mkdir -p "$out" "$objects"

# The program stays the same for all faults, whatever is built meanwhile.
if [ ! -x "$out/ibdlab" ]; then
	[ "${IBDLAB:-}" ] || $cargo build --release --quiet -p ibdlab
	cp "${IBDLAB:-${CARGO_TARGET_DIR:-$root/target}/release/ibdlab}" "$out/ibdlab"
fi
$cargo build --quiet -p kmod
kmod=${CARGO_TARGET_DIR:-$root/target}/debug/kmod

# The trees that faults are planted in, one for each builder, each with one target directory for all its faults: only what a fault changes is
# compiled. Every file is new: with the time it had, cargo would take what an earlier run compiled with a fault for what is there now.
for n in $(seq "$jobs"); do
	tree=$trees/$n
	rm -rf "$tree.new"
	mkdir -p "$tree/target" "$tree.new"
	git ls-files -z | tar --null --ignore-failed-read -T - -cf - | tar -C "$tree.new" -xmf -
	mv "$tree/target" "$tree.new/target"
	rm -rf "$tree"
	mv "$tree.new" "$tree"
done

# A hash over what the modules in the builder's tree are built from.
sources() {
	(cd "$tree" && find rust usr tools/kmod Cargo.lock Cargo.toml -type f | sort | xargs sha256sum | sha256sum)
}
healthy=$(sources)

# Pairs are searched, and tests run, on the objects that ship alone.
more=--atomics\ --races
[ -z "$shipped" ] || more=''

# Which sources and which fault the objects of a patch are to be of. $1: patch.
key() {
	printf '%s %s' "$healthy" "$(sha256sum <"$1")"
}

# Are there objects with this fault? $1: patch.
is_built() {
	[ "$(cat "$objects/$(basename "$1" .patch)/key" 2>/dev/null)" = "$(key "$1")" ]
}

# Builds the modules with a fault, in the builder's tree, into objects/NAME/kernel, with calls for their atomic operations into objects/NAME/atomics, and
# with calls for their loads and stores, too, into objects/NAME/races.
# $1: patch.
build() {
	name=$(basename "$1" .patch)
	! is_built "$1" || return 0
	rm -rf "${objects:?}/$name" "$out/$name.build"
	# Within a repository git takes the paths for the repository's own, and silently leaves out what is not below this directory.
	(cd "$tree" && GIT_CEILING_DIRECTORIES=$root/target git apply "$1" && [ "$(sources)" != "$healthy" ] &&
		for variant in '' $more; do
			# shellcheck disable=SC2086 # Perhaps no word.
			CARGO_MANIFEST_DIR=$tree/tools/kmod "$kmod" build $variant mac_ib ibd ibp swhca >>"$out/$name.build" 2>&1 || exit 1
		done)
	built=$?
	(cd "$tree" && GIT_CEILING_DIRECTORIES=$root/target git apply -R "$1")
	[ "$built" -eq 0 ] || return 1
	! grep -q '^warning' "$out/$name.build" || return 1
	rm "$out/$name.build"
	mkdir "$objects/$name"
	for variant in kernel $more; do cp -a "$tree/proto/${variant#--}" "$objects/$name/"; done
	key "$1" >"$objects/$name/key"
}

# A value of a campaign's summary: the first field of this name. $1: field, $2: directory.
field() {
	sed -n "s/^ *\"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" "$2/summary.json" | head -n 1
}

# Searches for a fault with one seed. $1: patch, $2: seed.
search() {
	name=$(basename "$1" .patch)
	found=$out/$name/$2
	[ ! -e "$found/summary.json" ] || return 0
	rm -rf "$found"
	case $1 in
	*/fabrics/*) among=--fabrics most=$((schedules < 2000 ? schedules : 2000)) ;;
	# The table of docs/search.md is of links without connections.
	*) among="${PAIRS:+--pairs} --connections none" most=$schedules ;;
	esac
	# It ends with 1 if something is found.
	# shellcheck disable=SC2086 # Perhaps no word.
	"$out/ibdlab" campaign $among ${STRATEGY:+--strategy "$STRATEGY"} --workers 1 --until-found --seed "$2" --schedules "$most" --shrink-runs 0 \
		--proto "$objects/$name/kernel" --atomics "$objects/$name/atomics" --races "$objects/$name/races" --counting /nonexistent --out "$found" >/dev/null 2>"$out/$name.$2.search" || true
	[ -e "$found/summary.json" ] || { cat "$out/$name.$2.search" >&2 && exit 1; }
	rm -rf "$out/$name.$2.search" "$found"/worker-*
}

# A line for each fault and seed that is measured: family, name, seed, schedules, found (0 or 1), strategy, signature; by tabs.
lines() {
	for patch in "$root"/tests/planted/*/*.patch; do
		name=$(basename "$patch" .patch)
		family=$(sed -n '1s/.*weakness \([A-E][0-9]*\) .*/\1/p' "$patch")
		family=${family:-mutant}
		! head -n 1 "$patch" | grep -q '^Not found today' || family="$family, not found today"
		for seed in $seeds; do
			found=$out/$name/$seed
			[ -e "$found/summary.json" ] || continue
			index=$(field index "$found")
			if [ "$index" ]; then
				printf '%s\t%s\t%s\t%s\t1\t%s\t%s\n' "$family" "$name" "$seed" $((index + 1)) \
					"$(sed -n '/"findings"/,$p' "$found/summary.json" | sed -n 's/^ *"strategy": "\(.*\)",$/\1/p' | head -n 1)" \
					"$(field signature "$found")"
			else
				printf '%s\t%s\t%s\t%s\t0\t-\t-\n' "$family" "$name" "$seed" "$(field schedules "$found")"
			fi
		done
	done
}

# Both tables, from what is measured so far.
tables() {
	lines | sed 's/\\"/"/g' | sort -t "$(printf '\t')" -k 2,2 -k 3,3n >"$out/lines.tsv"
	awk -F '\t' '
		function row() {
			if (name == "") return
			mean = found ? sprintf("%.0f", sum / found) : "more than " most
			printf "| `%s` | %s | %d of %d | %s | %s | %s |\n", name, family, found, runs, mean, by, said
			all++; some += (found > 0); total_runs += runs; total_found += found
		}
		BEGIN {
			print "| Fault | Family | Found | Schedules | By | As |"
			print "|---|---|---|---|---|---|"
		}
		$2 != name { row(); name = $2; family = $1; found = runs = sum = most = 0; by = said = "" }
		{
			runs++
			if ($5) {
				found++; sum += $4
				if (index(by, $6) == 0) by = by (by ? "; " : "") $6
				if (said == "") { said = $7; gsub(/\|/, "\\|", said) }
			} else if ($4 > most) most = $4
		}
		END {
			row()
			printf "\n%d of %d faults were found, in %d of %d searches.\n", some, all, total_found, total_runs
		}' "$out/lines.tsv" >"$out/table.md"
	awk -F '\t' 'BEGIN { print "[" }
		{
			gsub(/\\/, "\\\\"); gsub(/"/, "\\\"")
			printf "%s  {\"fault\": \"%s\", \"family\": \"%s\", \"seed\": %d, \"schedules\": %d, \"found\": %s, \"strategy\": \"%s\", \"signature\": \"%s\"}", \
				(NR == 1 ? "" : ",\n"), $2, $1, $3, $4, $5 ? "true" : "false", $6, $7
		}
		END { print "\n]" }' "$out/lines.tsv" >"$out/table.json"
}

# Is it one of FAULTS? $1: name.
is_wanted() {
	set -f
	for pattern in ${FAULTS:-*}; do
		# shellcheck disable=SC2254 # A pattern.
		case $1 in $pattern) set +f && return 0 ;; esac
	done
	set +f
	return 1
}

# Which tests with seeds find a fault: a line of seeds.md. $1: patch.
by_seeds() {
	name=$(basename "$1" .patch)
	by='none of the six programs'
	ended=0
	PROTO="$objects/$name/kernel" timeout 600 $cargo test --quiet -p ibdlab --test seeds --test rings --test trouble \
		--test connected --test swhca --test fabrics -- --skip three_links_do --skip the_same_with_checksums --skip a_fabric_follows \
		>"$out/$name.said" 2>&1 || ended=$?
	[ "$ended" -eq 0 ] || by='`make test`'
	tests=$(sed -n 's/^\(.*::\)*\([a-z_0-9]*\) --- FAILED$/\2/p' "$out/$name.said" | sort -u | tr '\n' ' ')
	# A test that does not end finds the fault as well, but perhaps the machine is only slow: the table says which it is.
	[ "$ended" -ne 124 ] || tests="${tests}did not end in ten minutes "
	echo "| \`$name\` | $by | $tests|" >"$out/$name.seeds"
	cat "$out/$name.seeds"
}

if [ "$suite" ]; then
	for patch in "$root"/tests/planted/*/*.patch; do
		name=$(basename "$patch" .patch)
		is_wanted "$name" && [ ! -e "$out/$name.seeds" ] || continue
		build "$patch" || { echo "not built: $name, see $out/$name.build" >&2 && exit 1; }
		by_seeds "$patch"
	done
	{ printf '| Fault | Found by | Tests |\n|---|---|---|\n' && cat "$out"/*.seeds; } >"$out/seeds.md"
	echo "$out/seeds.md"
	exit 0
fi

begun=$(date +%s)
has_time() {
	[ "$minutes" -eq 0 ] || [ $(($(date +%s) - begun)) -lt $((minutes * 60)) ]
}

# Is there something to search for with this seed? $1: patch, $2: seed.
is_to_do() {
	is_wanted "$(basename "$1" .patch)" && [ ! -e "$out/$(basename "$1" .patch)/$2/summary.json" ]
}

# Builds what is to be searched for and no other builder has begun with, in the order in which it is. $1: number of the builder's tree.
build_all() {
	tree=$trees/$1
	for seed in $seeds; do
		for patch in "$root"/tests/planted/*/*.patch; do
			is_to_do "$patch" "$seed" && mkdir "$claims/$(basename "$patch" .patch).objects" 2>/dev/null || continue
			has_time || return 0
			build "$patch" || { echo "not built: $name, see $out/$name.build" >&2 && touch "$out/$name.not-built"; }
		done
	done
}

# Searches for what no other job has begun with: all faults with the first seed before any with the second, so that a table that is not
# finished says something about each.
search_all() {
	for seed in $seeds; do
		for patch in "$root"/tests/planted/*/*.patch; do
			is_to_do "$patch" "$seed" && mkdir "$claims/$(basename "$patch" .patch).$seed" 2>/dev/null || continue
			until is_built "$patch"; do
				has_time || return 0
				[ ! -e "$out/$(basename "$patch" .patch).not-built" ] || continue 2
				sleep 1
			done
			has_time || return 0
			search "$patch" "$seed"
			index=$(field index "$found")
			echo "$name, seed $seed: ${index:+found, its number is }${index:-not found}"
			# What is measured so far can be read at any time; one job at a time writes it.
			until mkdir "$claims/tables" 2>/dev/null; do sleep 1; done
			tables
			rmdir "$claims/tables"
		done
	done
}

claims=$(mktemp -d)
rm -f "$out"/*.not-built
builders=''
searchers=''
for n in $(seq "$jobs"); do
	build_all "$n" &
	builders="$builders $!"
	search_all &
	searchers="$searchers $!"
done
# shellcheck disable=SC2064,SC2086 # As many words as there are builders.
trap "kill $builders 2>/dev/null || true; rm -rf '$claims'" EXIT
for searcher in $searchers; do wait "$searcher"; done
set -- "$out"/*.not-built
[ ! -e "$1" ] || exit 1
tables
tail -n 1 "$out/table.md"
echo "$out/table.md"

[ -z "$proof" ] || awk -F '\t' '
	$1 !~ /not found today/ { wanted[$2] = 1 }
	$5 { delete wanted[$2]; found[$2] = 1 }
	END { for (name in wanted) if (!(name in found)) { print "not found: " name; missed = 1 } exit missed }' "$out/lines.tsv"
