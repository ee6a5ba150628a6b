# What add and remove have in common. Not run by itself.
#
# Both are one switch from the module that is there to another, in steps. When a step fails, what was done is undone: the
# files are put back, the driver is loaded again and every link and address that was there before is brought up.
# shellcheck shell=sh disable=SC2015,SC2034 # A && B || C where C is for both; variables of add and remove

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd)
root=
live=no
plugin=no

usage() {
	echo "usage: $me [-R ROOT [-l]]$1" >&2
	exit 2
}

say() {
	echo "$me: $*" >&2
}

refuse() {
	say "$*"
	say "nothing was changed"
	exit 1
}

# Where this package keeps what it replaced, and what it did.
keep() {
	echo "$root/var/ipoib"
}

# The files of the archive for this machine, from the root, one a line.
our_files() {
	echo kernel/drv/amd64/ibp
	echo kernel/drv/ibp.conf
	echo usr/share/man/man4d/mac_ib.4d
	[ "$plugin" = no ] || echo kernel/mac/amd64/mac_ib
}

# ---- links and addresses --------------------------------------------------------------------------------------------

# Runs a command that must not read what the loop around it reads.
run() {
	"$@" </dev/null
}

# Whether one of the lines of standard input is $1.
among() {
	(
		while read -r one; do
			[ "$one" != "$1" ] || exit 0
		done
		exit 1
	)
}

# "temporary" for what `ipadm` shows without a flag of persistence ($1), or else "persistent".
kind_of() {
	case $1 in
	---) echo temporary ;;
	*) echo persistent ;;
	esac
}

# Writes what is up on InfiniBand to directory $1: partitions, interfaces, addresses; temporary ones too.
save_links() {
	: >"$1/parts" && : >"$1/ifs" && : >"$1/addrs" || return 1
	dladm show-part -p -o link,pkey,over >"$1/all" || return 1
	dladm show-part -P -p -o link >"$1/persistent" || return 1
	ipadm show-if -p -o ifname,state,persistent >"$1/all-ifs" || return 1
	ipadm show-addr -p -o addrobj,type,persistent,addr >"$1/all-addrs" || return 1
	while IFS=: read -r link pkey over; do
		kind=temporary
		! among "$link" <"$1/persistent" || kind=persistent
		echo "$link $pkey $over $kind" >>"$1/parts" || return 1
		while IFS=: read -r name state persistent; do
			if [ "$name" = "$link" ] && [ "$state" != disabled ]; then
				echo "$name $(kind_of "$persistent")" >>"$1/ifs" || return 1
			fi
		done <"$1/all-ifs"
		while IFS=: read -r object type persistent address; do
			[ "${object%/*}" = "$link" ] || continue
			[ "${object#*/}" != "?" ] || {
				say "$link has an address without a name, which could not be brought back"
				return 1
			}
			# ipadm escapes the colons of an IPv6 address.
			address=$(echo "$address" | sed 's/\\//g')
			echo "$object $type $(kind_of "$persistent") $address" >>"$1/addrs" || return 1
		done <"$1/all-addrs"
	done <"$1/all"
}

has_part() {
	dladm show-part -p -o link 2>/dev/null | among "$1"
}

has_if() {
	ipadm show-if -p -o ifname,state 2>/dev/null | sed '/:disabled$/d; s/:.*//' | among "$1"
}

has_addr() {
	ipadm show-addr -p -o addrobj 2>/dev/null | among "$1"
}

# Unloads module $1 if it is loaded.
unload() {
	modules=$(modinfo) || return 1
	id=$(echo "$modules" | awk '$6 == "'"$1"'" { print $1 }')
	[ -z "$id" ] || modunload -i "$id"
}

# Takes down what directory $1 says is up, as far as it is, and unloads the driver. Persistent configuration stays.
take_down() {
	while read -r name kind; do
		has_if "$name" || continue
		case $kind in
		persistent) run ipadm disable-if -t "$name" || return 1 ;;
		*) run ipadm delete-if "$name" || return 1 ;;
		esac
	done <"$1/ifs"
	while read -r link pkey over kind; do
		has_part "$link" || continue
		run dladm delete-part -t "$link" || return 1
	done <"$1/parts"
	unload ibp || return 1
	[ "$plugin" = no ] || unload mac_ib
}

# Loads the driver and brings up what directory $1 says was up, as far as it is not.
bring_up() {
	devfsadm -i ibp || return 1
	while read -r link pkey over kind; do
		has_part "$link" && continue
		case $kind in
		persistent) run dladm up-part "$link" || return 1 ;;
		*) run dladm create-part -t -f -l "$over" -P "$pkey" "$link" || return 1 ;;
		esac
	done <"$1/parts"
	while read -r name kind; do
		has_if "$name" && continue
		case $kind in
		persistent) run ipadm enable-if -t "$name" || return 1 ;;
		*) run ipadm create-if -t "$name" || return 1 ;;
		esac
	done <"$1/ifs"
	while read -r object type kind address; do
		has_addr "$object" && continue
		case $type in
		static) run ipadm create-addr -t -T static -a "$address" "$object" || return 1 ;;
		*) run ipadm create-addr -t -T "$type" "$object" || return 1 ;;
		esac
	done <"$1/addrs"
}

# Everything that directory $1 says was up is up.
all_up() {
	while read -r link pkey over kind; do
		has_part "$link" || {
			say "the link $link did not come up"
			return 1
		}
	done <"$1/parts"
	while read -r object type kind address; do
		has_addr "$object" || {
			say "the address $object did not come up"
			return 1
		}
	done <"$1/addrs"
}

# ---- files ----------------------------------------------------------------------------------------------------------

# Puts file $1 in the place of $2, with the old one there until the new one is whole.
put() {
	cp -p "$1" "$2.new" && mv -f "$2.new" "$2" && return 0
	rm -f "$2.new"
	return 1
}

# Makes directory $1 and its parents, and notes in file $2 which were made.
make_dirs() {
	[ -d "$1" ] && return 0
	make_dirs "$(dirname "$1")" "$2" || return 1
	mkdir "$1" && echo "$1" >>"$2"
}

# Takes away the directories noted in file $1, the last made first, and says nothing of those that are used.
remove_dirs() {
	[ -f "$1" ] || return 0
	sed -n '1!G;h;$p' "$1" | while read -r dir; do
		rmdir "$dir" 2>/dev/null
	done
	return 0
}

# Puts our files in place, from below $1; what was there is kept already.
put_ours() {
	for file in $(our_files); do
		make_dirs "$(dirname "$root/$file")" "$(keep)/dirs" || return 1
		put "$1/$file" "$root/$file" || return 1
	done
}

# Puts back what was there before, without taking the kept away.
put_theirs() {
	while read -r what file; do
		rm -f "$root/$file.new"
		case $what in
		kept) put "$(keep)/files/$file" "$root/$file" || return 1 ;;
		*) rm -f "$root/$file" || return 1 ;;
		esac
	done <"$(keep)/record"
	remove_dirs "$(keep)/dirs"
	rm -f "$(keep)/dirs"
}

# The boot archive holds a copy of the kernel's modules.
update_archive() {
	if [ -n "$root" ]; then bootadm update-archive -R "$root"; else bootadm update-archive; fi
}

# Takes away what was kept.
forget() {
	made=$(cat "$(keep)/keep-dirs" 2>/dev/null)
	rm -rf "$(keep)"
	echo "$made" | sed -n '1!G;h;$p' | while read -r dir; do
		[ -z "$dir" ] || rmdir "$dir" 2>/dev/null
	done
	return 0
}
