#!/bin/sh
# Puts the modules into a copy of a real gate, twice, checks every name, and takes them out again.
#
# usage: try-public-gate.sh GATE    GATE: a gate under git, its work tree or its git directory; it is only read
#
# The copy is a fresh repository in a scratch directory, of all files that can be read: a partial clone lacks some.
set -eu

from=${1:?the gate: a git work tree or a git directory}
gate=${GATE_TOOL:-"cargo run --quiet -p gate --"}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy=$scratch/gate
mkdir "$copy"

# The gate's repository may be a stranger's, and its configuration name programs: it is asked where its objects are and what its last
# commit is called, which runs none. All else is done in a repository of our own that borrows the objects. Nothing is fetched.
export GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none GIT_OPTIONAL_LOCKS=0
objects=$(git -C "$from" rev-parse --path-format=absolute --git-path objects)
commit=$(git -C "$from" rev-parse --verify HEAD)
git -C "$copy" init -q
ours() {
	GIT_ALTERNATE_OBJECT_DIRECTORIES=$objects git -C "$copy" -c core.quotePath=false "$@"
}
ours read-tree "$commit"
ours ls-files -s | cut -d ' ' -f 2 | ours cat-file --batch-check='%(objectname) %(objecttype)' |
	sed -n 's/ missing$//p' >"$scratch/missing"
if [ -s "$scratch/missing" ]; then
	ours ls-files -s | grep -F -f "$scratch/missing" | cut -f 2 >"$scratch/unreadable"
	ours update-index --force-remove --stdin <"$scratch/unreadable"
	echo "left out: $(wc -l <"$scratch/unreadable") files that cannot be read"
fi
ours checkout-index -a -q
# What was borrowed becomes ours: the gate is not needed any more.
rm "$copy/.git/index"
git -C "$copy" add -A -f
git -C "$copy" -c user.name=gate -c user.email=gate@example.org commit -q -m 'a gate'
echo "a copy of $(git -C "$copy" ls-files | wc -l) files"

# Prints what git finds changed, ignored files and all.
changes() {
	git -C "$copy" status --porcelain --ignored --untracked-files=all
}
expect() {
	[ "$1" = "$2" ] || {
		echo "$3" >&2
		exit 1
	}
}
$gate install "$copy"
changes >"$scratch/first"
$gate check "$copy"
git -C "$copy" diff >"$scratch/first.diff"
$gate install "$copy"
git -C "$copy" diff >"$scratch/second.diff"
expect "$(cat "$scratch/first")" "$(changes)" "a second installation changed something"
cmp "$scratch/first.diff" "$scratch/second.diff"
$gate uninstall "$copy"
expect "$(changes)" "" "something is left: $(changes)"
echo "in, in again without a change, and out without a trace"
