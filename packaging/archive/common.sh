# What add and remove have in common. Not run by itself.
#
# Both are one switch from the module that is there to another, in steps. When a step fails, what was done is undone: the
# files are put back, the driver is loaded again and every link and address that was there before is brought up.
# shellcheck shell=sh disable=SC2015,SC2034 # A && B || C where C is for both; variables of add and remove

me=${0##*/}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=
live=no
plugin=no
force=no

# Whether take_down has taken everything down.
down=no

usage() {
	echo "usage: $me [-R ROOT [-l]] [-f]$1" >&2
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

# Where this package keeps what it replaced, and what it did:
#
# record     a line for each file: whether there was one (kept, none), its path, the cksum of the archive's own
# files      what was replaced
# dirs       the directories that were made for files of the archive
# links      what was up before the switch, with its state; whole once there is "saved"
# saved      when the machine had booted that "links" tells of
# archived   the boot archive may have been changed
# putting    remove may have put files back
# ours       what remove found in the place of the files
keep() {
	echo "$root/var/ipoib"
}

# The cksum and the size of file $1.
sum_of() {
	cksum <"$1"
}

# The files of the archive for this machine, from the root, one a line.
our_files() {
	echo kernel/drv/amd64/ibp
	echo kernel/drv/ibp.conf
	echo usr/share/man/man4d/ibd.4d
	echo usr/share/man/man4d/mac_ib.4d
	[ "$plugin" = no ] || echo kernel/mac/amd64/mac_ib
}

# When the machine booted.
boot_time() {
	kstat -p unix:0:system_misc:boot_time
}

# ---- one at a time --------------------------------------------------------------------------------------------------

lock() {
	echo "$(keep).lock"
}

# Whether whoever wrote $1, a process and when the machine had booted, may still be at work.
works() {
	[ -n "$1" ] && kill -s 0 "${1%% *}" 2>/dev/null || return 1
	[ -z "${1#* }" ] || ! boot=$(boot_time) || [ "${1#* }" = "$boot" ]
}

# Who has the lock. Who has just made it gets time to say so.
owner() {
	cat "$(lock)/owner" 2>/dev/null || {
		wait_seconds 1
		cat "$(lock)/owner" 2>/dev/null
	}
}

# Takes the lock away from $1, who does not work any more; not from whoever took it in the meantime.
take_over() {
	mv "$(lock)" "$(lock).$$" || return 1
	[ "$(cat "$(lock).$$/owner" 2>/dev/null)" = "$1" ] || {
		mv "$(lock).$$" "$(lock)"
		return 1
	}
	rm -rf "$(lock).$$"
}

# Keeps other runs of add and remove from this root until this one ends, in whatever way.
only_one() {
	if ! mkdir "$(lock)" 2>/dev/null; then
		[ -d "$(lock)" ] || refuse "$(lock) cannot be made"
		theirs=$(owner)
		! works "$theirs" || refuse "process ${theirs%% *} is at work (it has $(lock))"
		take_over "$theirs" && mkdir "$(lock)" || refuse "$(lock) cannot be taken over"
	fi
	trap 'rm -rf "$(lock)"' EXIT
	echo "$$ $(boot_time)" >"$(lock)/owner" || refuse "$(lock)/owner cannot be written"
}

# ---- what IBTL still has of the driver ------------------------------------------------------------------------------
#
# The C driver deletes a partition although IBTL has queue pairs of its closed connections. IBTL then keeps that partition as a
# client, for good, and calls the driver for it at each event of the adapter. Once the driver is unloaded there is nothing to
# call: the machine panics. Only a boot takes such a client away.

# What the kernel has logged since it booted: "kept" if IBTL said that it keeps a client of ibp, "nothing" if it did not, and
# "unknown" if the log does not go back to the line with which a boot begins.
logged() {
	# shellcheck disable=SC2046 # a list, the oldest first, as dmesg(8) reads it
	cat $(ls -tr "$root"/var/adm/messages "$root"/var/adm/messages.[0-9] "$root"/var/adm/messages.[0-9][0-9] 2>/dev/null) \
		/dev/null 2>/dev/null | awk '
		/unix: .* Version .* 64-bit/ { said = "nothing" }
		/IBT DETACH failed: resources not yet freed by client .IBPART/ { if (said != "") said = "kept" }
		END { if (said == "") said = "unknown"; print said }'
}

# How many clients of ibp IBTL has, those of links that are up among them; nothing if the kernel's debugger does not say.
clients() {
	echo '*ibtl_clnt_list::list ibtl_clnt_t clnt_list_link | ::print ibtl_clnt_t clnt_name' | mdb -k 2>/dev/null |
		awk '/clnt_name = / { all++ } /"IBPART"/ { ibp++ } END { if (all) print ibp + 0 }'
}

elsewhere="run $me -R on another boot environment (beadm create, beadm mount) and boot that"

# Whether ibp may be unloaded: nothing says that IBTL keeps a client of it, and something says that it does not. Links have $1
# clients at most, or any number if that is empty.
may_unload() {
	log=$(logged)
	clients=$(clients)
	[ "$log" != kept ] && { [ -z "$1" ] || [ "${clients:-0}" -le "$1" ]; } || {
		say "IBTL keeps a deleted partition of ibp, and would panic the machine without the driver: $elsewhere"
		return 1
	}
	[ "$log" = nothing ] || [ -n "$clients" ] || [ "$force" = yes ] || {
		say "neither the log since the boot nor mdb says whether IBTL keeps a deleted partition of ibp; if it does, it would panic"
		say "the machine without the driver: $elsewhere. If no partition was deleted since the boot, -f unloads it all the same"
		return 1
	}
}

# ---- links and addresses --------------------------------------------------------------------------------------------

# Runs a command that must not read what the loop around it reads.
run() {
	"$@" </dev/null
}

# Waits $1 seconds, in a program of that name: a shell has one of its own, for which no test can put its clock.
wait_seconds() {
	env sleep "$1"
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

# The value of property $2 of link $1.
prop_of() {
	run dladm show-linkprop -c -o value -p "$2" "$1"
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
	# A shell goes on when the redirection of "true" fails; that of ":" would end it.
	true >"$1/parts" && true >"$1/ifs" && true >"$1/addrs" && rm -f "$1/loaded" || return 1
	modinfo >"$1/all" || return 1
	[ -z "$(id_of ibp <"$1/all")" ] || true >"$1/loaded" || return 1
	# It fails where no daemon of IPMP runs.
	grouped=$(ipmpstat -P -i -o interface 2>/dev/null)
	dladm show-part -p -o link,pkey,over,state >"$1/all" || return 1
	dladm show-part -P -p -o link >"$1/persistent" || return 1
	ipadm show-if -p -o ifname,state,persistent >"$1/all-ifs" || return 1
	ipadm show-addr -p -o addrobj,type,state,addr >"$1/all-addrs" || return 1
	while IFS=: read -r link pkey over linkstate; do
		! echo "$grouped" | among "$link" || {
			say "$link is in an IPMP group, which could not be brought back"
			return 1
		}
		zone=$(prop_of "$link" zone) || return 1
		[ -z "$zone" ] || [ "$zone" = -- ] || {
			say "$link is in use: it belongs to the zone $zone"
			return 1
		}
		mode=$(prop_of "$link" linkmode) || return 1
		kind=temporary
		! among "$link" <"$1/persistent" || kind=persistent
		echo "$link $pkey $over $kind $linkstate $mode" >>"$1/parts" || return 1
		while IFS=: read -r name state persistent; do
			if [ "$name" = "$link" ] && [ "$state" != disabled ]; then
				echo "$name $(kind_of "$persistent")" >>"$1/ifs" || return 1
			fi
		done <"$1/all-ifs"
		while IFS=: read -r object type state address; do
			[ "${object%/*}" = "$link" ] && [ "$state" != disabled ] || continue
			# ipmgmtd names what ifconfig made; ipadm makes no address of such a name.
			case ${object#*/} in
			'?' | _*)
				say "the address $object was not made by ipadm, which could not bring it back"
				return 1
				;;
			esac
			# ipadm escapes the colons of an IPv6 address.
			address=$(echo "$address" | sed 's/\\//g')
			echo "$object $type $state $address" >>"$1/addrs" || return 1
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

# The number of module $1, if it is among those that modinfo lists on standard input.
id_of() {
	awk '$6 == "'"$1"'" { print $1 }'
}

# Whether module $1 is loaded.
loaded() {
	modules=$(modinfo) || return 2
	id=$(echo "$modules" | id_of "$1")
	[ -n "$id" ]
}

# Unloads module $1 if it is loaded.
unload() {
	loaded "$1" || return $(($? - 1))
	modunload -i "$id"
}

# The kernel reads ibp.conf when it boots and when update_drv says so, not when it loads the driver. A driver that could not
# be unloaded was not replaced.
reread_conf() {
	loaded ibp && return 0
	[ $? -eq 1 ] && update_drv ibp
}

# Waits until IBTL has forgotten the closed connections of the links in directory $1, if a link may have had one. It has their queue
# pairs for as long as the neighbour said that its acknowledgements may take, 34 seconds with a code of 23. If it has one yet when the C
# driver deletes the partition, it keeps that as a client (see above).
wait_for_connections() {
	while read -r link rest; do
		has_part "$link" || continue
		mode=$(prop_of "$link" linkmode) || return 1
		[ "$mode" = cm ] || continue
		say "waiting a minute for the end of connections"
		wait_seconds 60 || return 1
		return 0
	done <"$1/parts"
}

# Seconds since 1970.
now() {
	date +%s
}

# Deletes the active partition $1, which is asked until $2 at the latest. A link of the C driver is busy while it holds packets or looks for
# a neighbour, one of ours until the subnet administrator has answered that it left its groups, or was asked in vain often enough. Each
# answer of ours may take 20 seconds.
delete_part() {
	until error=$(run dladm delete-part -t "$1" 2>&1); do
		clock=$(now) && [ "$clock" -lt "$2" ] && wait_seconds 1 || {
			say "$error"
			return 1
		}
	done
}

# Takes down what directory $1 says is up, as far as it is, and unloads the driver. Persistent configuration stays. Links that are busy have
# $2 seconds, all of them together.
take_down() {
	down=no
	while read -r name kind; do
		has_if "$name" || continue
		case $kind in
		persistent) run ipadm disable-if -t "$name" || return 1 ;;
		*) run ipadm delete-if "$name" || return 1 ;;
		esac
	done <"$1/ifs"
	wait_for_connections "$1" || return 1
	begun=$(now) || return 1
	while read -r link rest; do
		has_part "$link" || continue
		delete_part "$link" $((begun + $2)) || return 1
	done <"$1/parts"
	if loaded ibp; then
		may_unload 0 && modunload -i "$id" || return 1
	else
		[ $? -eq 1 ] || return 1
	fi
	[ "$plugin" = no ] || unload mac_ib || return 1
	down=yes
}

# Gives link $1 mode $2 again if it came back with another: the drivers have different ones for links whose mode was never saved. It lasts
# until the link is deleted, as one that was never saved does.
set_mode() {
	mode=$(prop_of "$1" linkmode) || return 1
	[ -z "$2" ] || [ "$mode" = "$2" ] || run dladm set-linkprop -t -p linkmode="$2" "$1"
}

# Loads the driver and brings up what directory $1 says was up, as far as it is not. Without an adapter there is nothing that
# the driver could be loaded for; it need not be if it was not before.
bring_up() {
	reread_conf || return 1
	devfsadm -i ibp || [ ! -f "$1/loaded" ] || return 1
	while read -r link pkey over kind state mode; do
		if ! has_part "$link"; then
			case $kind in
			persistent) run dladm up-part "$link" || return 1 ;;
			*) run dladm create-part -t -f -l "$over" -P "$pkey" "$link" || return 1 ;;
			esac
		fi
		set_mode "$link" "$mode" || return 1
	done <"$1/parts"
	while read -r name kind; do
		has_if "$name" && continue
		case $kind in
		persistent) run ipadm enable-if -t "$name" || return 1 ;;
		*) run ipadm create-if -t "$name" || return 1 ;;
		esac
	done <"$1/ifs"
	while read -r object type state address; do
		has_addr "$object" && continue
		case $type in
		static) run ipadm create-addr -t -T static -a "$address" "$object" || return 1 ;;
		*) run ipadm create-addr -t -T "$type" "$object" || return 1 ;;
		esac
	done <"$1/addrs"
}

# Names something that directory $1 says was up and is not.
not_up() {
	while read -r link pkey over kind state mode; do
		if [ "$state" = up ]; then
			[ "$(run dladm show-part -p -o state "$link" 2>/dev/null)" = up ]
		else
			has_part "$link"
		fi || {
			echo "the link $link"
			return 0
		}
	done <"$1/parts"
	while read -r object type state address; do
		if [ "$state" = ok ]; then
			run ipadm show-addr -p -o state "$object" 2>/dev/null | among ok
		else
			has_addr "$object"
		fi || {
			echo "the address $object"
			return 0
		}
	done <"$1/addrs"
}

# Waits until everything that directory $1 says was up is up, half a minute at most.
all_up() {
	seconds=30
	while late=$(not_up "$1") && [ -n "$late" ]; do
		[ "$seconds" -gt 0 ] || {
			say "$late did not come up"
			return 1
		}
		seconds=$((seconds - 1))
		wait_seconds 1
	done
}

# Keeps what is up for the way back.
save() {
	boot=$(boot_time) && mkdir -p "$(keep)/links" && save_links "$(keep)/links" && echo "$boot" >"$(keep)/saved"
}

# ---- files ----------------------------------------------------------------------------------------------------------

# Puts file $1 in the place of $2, with the old one there until the new one is whole. The new one is of owner $3, or else of
# the one it had.
put() {
	cp -p "$1" "$2.new" && { [ $# -eq 2 ] || chown "$3" "$2.new"; } && mv -f "$2.new" "$2" && return 0
	rm -f "$2.new"
	return 1
}

# Makes directory $1 and its parents, and notes in file $2 which.
make_dirs() {
	[ -d "$1" ] && return 0
	make_dirs "$(dirname "$1")" "$2" || return 1
	echo "$1" >>"$2" && mkdir "$1"
}

# Takes away the directories noted in file $1, the last made first, and says nothing of those that are used.
remove_dirs() {
	[ -f "$1" ] || return 0
	sed -n '1!G;h;$p' "$1" | while read -r dir; do
		rmdir "$dir" 2>/dev/null
	done
	return 0
}

# Puts our files in place, from below $1, and takes away what is not there; what they replace is kept already. They are of
# root:sys, whoever unpacked them.
put_ours() {
	for file in $(our_files); do
		if [ -e "$1/$file" ]; then
			make_dirs "$(dirname "$root/$file")" "$(keep)/dirs" && put "$1/$file" "$root/$file" 0:3 || return 1
		else
			rm -f "$root/$file" || return 1
		fi
	done
}

# Puts back what was there before, without taking the kept away. What is neither that nor the archive's, as after an update
# of the C driver's package, stays. An ibp.conf that was edited goes with our driver, for which it was edited.
put_theirs() {
	left=no
	while read -r what file sum; do
		rm -f "$root/$file.new"
		[ "$what" = none ] || ! cmp -s "$(keep)/files/$file" "$root/$file" || continue
		if [ -e "$root/$file" ] && [ "$(sum_of "$root/$file")" != "$sum" ] &&
			{ [ "$file" != kernel/drv/ibp.conf ] || [ "$left" = yes ]; }; then
			say "$root/$file is not the archive's any more and stays as it is"
			left=yes
			continue
		fi
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

# Takes away what was kept. Without the record there is nothing to remove.
forget() {
	rm -f "$(keep)/record"
	rm -rf "$(keep)" "$(keep).new"
}
