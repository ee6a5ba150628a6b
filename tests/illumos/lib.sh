# The suite's functions; every script of it reads this first. Not run by itself.
#
# Two hosts, `a` and `b`: two zones of one machine, each with a partition on a port of its own, or two machines. What is done
# to a link is done with `links SIDE 'COMMAND'`, what is done above it with `stack SIDE 'COMMAND'`.
#
# What is made is written to the list of what has to be undone, before it is made. A script that ends, however it ends, undoes
# its part; `cleanup` undoes what a killed one left. An entry whose thing was never made, or is gone, is done with.
# shellcheck shell=sh disable=SC2034,SC2317 # variables and functions of the scripts that read this

set -u
# Whoever read what is said may be gone; what was made has to go all the same.
trap '' PIPE
PATH=$PATH:/usr/sbin:/sbin
me=${0##*/}
suite=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
suite=${suite%/cases}

work=${IPOIB_WORK:-/var/tmp/ipoib-tests}
list=$work/undo
results=${IPOIB_RESULTS:-$work/results}
config=${IPOIB_CONFIG:-$suite/config}

say() {
	echo "$me: $*" >&2
}

# Where there is a nawk, awk may be the old one, which has no functions and no gsub.
if command -v nawk >/dev/null; then
	awk() {
		nawk "$@"
	}
fi

# ---- what the operator says -----------------------------------------------------------------------------------------

SIDES=zones
ZONE_TEMPLATE=
A_REACH=
B_REACH=
A_PORT=ibp0
B_PORT=ibp1
A_PORT2=
PKEY=ffff
PKEY2=
A_ADDR=10.77.0.1
B_ADDR=10.77.0.2
A_ADDR6=fd00:77::1
B_ADDR6=fd00:77::2
IPMP_ADDR=10.77.0.11
SCRATCH=/var/tmp
ROUNDS=10
PORT_DOWN=
PORT_UP=
DHCP=no
PEER_REACH=
PEER_ADDR=
TCP_MB=64
THROUGHPUT_MB=4096
TCP_PORT=5077

read_config() {
	[ -f "$config" ] || {
		say "no $config: copy config.example there and say what this machine has"
		exit 2
	}
	# shellcheck disable=SC1090 # the operator's
	. "$config"
	case $SIDES in
	zones | machines) ;;
	*)
		say "$config: SIDES is zones or machines, not '$SIDES'"
		exit 2
		;;
	esac
}

link() {
	echo "ipoib${1}0"
}
zone() {
	echo "ipoib-$1"
}
other() {
	case $1 in a) echo b ;; b) echo a ;; esac
}
# The value of A_$2 or B_$2.
of() {
	case $1.$2 in
	a.port) echo "$A_PORT" ;;
	b.port) echo "$B_PORT" ;;
	a.address) echo "$A_ADDR" ;;
	b.address) echo "$B_ADDR" ;;
	a.address6) echo "$A_ADDR6" ;;
	b.address6) echo "$B_ADDR6" ;;
	esac
}

# ---- where things are done ------------------------------------------------------------------------------------------

# Runs a command line where the links of a side are administered.
# shellcheck disable=SC2086 # prefixes of words
links() {
	case $1.$SIDES in
	peer.*) $PEER_REACH "$2" </dev/null ;;
	*.zones) sh -c "$2" </dev/null ;;
	a.machines) $A_REACH "$2" </dev/null ;;
	b.machines) $B_REACH "$2" </dev/null ;;
	esac
}

# Runs a command line on the IP stack of a side: a, b, or the Linux peer.
stack() {
	case $SIDES.$1 in
	zones.[ab]) zlogin "$(zone "$1")" "$2" </dev/null ;;
	*) links "$1" "$2" ;;
	esac
}

# Starts one command on the stack of a side; $job is the process here that waits for it.
background() {
	jobs=$((jobs + 1))
	pid_file=$SCRATCH/ipoib-tests.pid$jobs
	record job "$1" "$pid_file" "${2%% *}"
	stack "$1" "echo \$\$ >$pid_file; exec $2" >/dev/null 2>&1 &
	job=$!
}
jobs=0

# Whether one of the lines of standard input is $1.
among() {
	grep -F -x -e "$1" >/dev/null
}

# Runs $2... every second until it succeeds, for up to $1 seconds.
within() {
	left=$1
	shift
	until "$@" >/dev/null 2>&1; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || return 1
		sleep 1
	done
}

# ---- undoing --------------------------------------------------------------------------------------------------------

# Appends a line to the list. Nothing may be made whose line is not on disk.
record() {
	echo "$*" >>"$list" || {
		say "cannot write $list"
		exit 1
	}
}

recorded() {
	if [ -f "$list" ]; then
		echo $(($(wc -l <"$list")))
	else
		echo 0
	fi
}

has_part() {
	links "$1" "dladm show-part -p -o link" 2>/dev/null | among "$2"
}
# An interface of a zone that is not running is not there.
has_if() {
	stack "$1" "ipadm show-if -p -o ifname" 2>/dev/null | among "$2"
}
has_address() {
	stack "$1" "ipadm show-addr -p -o addrobj" 2>/dev/null | among "$2"
}
zone_state() {
	zoneadm -z "$1" list -p 2>/dev/null | cut -d : -f 3
}
module_id() {
	links "$1" modinfo | awk '$6 == "ibp" { print $1 }'
}
# Whether what $1 says was made on the stack of side $2 can be there: not when its zone does not run. A machine has to give a
# sign of life before its silence is taken for "not there".
can_be_there() {
	case $SIDES.$2.$1 in
	zones.[ab].part | zones.[ab].module) return 0 ;;
	zones.[ab].*) [ "$(zone_state "$(zone "$2")")" = running ] && return 0 ;;
	*)
		stack "$2" true >/dev/null 2>&1 && return 0
		say "$2 cannot be reached"
		unreachable=yes
		;;
	esac
	return 1
}

undo_zone() {
	[ "$(zone_state "$1")" != running ] || zoneadm -z "$1" halt || return 1
	case $(zone_state "$1") in
	installed | incomplete) zoneadm -z "$1" uninstall -F || return 1 ;;
	esac
	[ -z "$(zone_state "$1")" ] || zonecfg -z "$1" delete -F
}

# Undoes one entry; the words of a line.
undo_one() {
	case $1 in
	zone) undo_zone "$2" ;;
	port) sh -c "$PORT_UP" </dev/null ;;
	*)
		unreachable=no
		if can_be_there "$@"; then undo_at "$@"; else [ "$unreachable" = no ]; fi
		;;
	esac
}

undo_at() {
	case $1 in
	part) ! has_part "$2" "$3" || links "$2" "dladm delete-part -t $3" ;;
	if) ! has_if "$2" "$3" || stack "$2" "ipadm delete-if $3" ;;
	address) ! has_address "$2" "$3" || stack "$2" "ipadm delete-addr $3" ;;
	property)
		! has_if "$2" "$3" || stack "$2" "ipadm delete-if $3" || return 1
		[ "$(property "$2" "$3" "$4")" = "$5" ] || links "$2" "dladm set-linkprop -t -p $4=$5 $3"
		;;
	group)
		stack "$2" "ifconfig -a" | grep "^$3: " >/dev/null || return 0
		stack "$2" "ifconfig $3 unplumb"
		;;
	file) stack "$2" "rm -f $3" ;;
	# Another process may have its number by now.
	job) stack "$2" "if p=\$(cat $3 2>/dev/null); then case \$(ps -o args= -p \$p) in $4*) kill \$p ;; esac; fi; rm -f $3" ;;
	module) [ -n "$(module_id "$2")" ] || links "$2" "devfsadm -i ibp" ;;
	*) false ;;
	esac
}

# Undoes what was recorded after the first $1 entries, the last one first. What cannot be undone stays in the list.
undo_to() {
	: >"$work/left" || return 1
	while [ "$(recorded)" -gt "$1" ]; do
		entry=$(tail -1 "$list")
		# shellcheck disable=SC2086 # its words
		undo_one $entry >"$work/said" 2>&1 || {
			say "not undone: $entry: $(tail -1 "$work/said")"
			echo "$entry" | cat - "$work/left" >"$work/left.new" && mv "$work/left.new" "$work/left"
		}
		sed '$d' "$list" >"$list.new" && mv "$list.new" "$list" || return 1
	done
	rm -f "$work/said"
	if [ -s "$work/left" ]; then
		cat "$work/left" >>"$list"
		rm -f "$work/left"
		return 1
	fi
	rm -f "$work/left"
	[ "$(recorded)" -gt 0 ] || rm -f "$list"
}

# Puts the C driver back in whose place `compare` has put ours.
driver_back() {
	[ -f "$work/driver" ] && [ -z "${IPOIB_COMPARING:-}" ] || return 0
	archive=$(cat "$work/driver")
	if ! "$archive/remove" >"$work/said" 2>&1; then
		grep 'there is nothing to remove' "$work/said" >/dev/null || {
			cat "$work/said" >&2
			say "not undone: the driver: run $archive/remove"
			return 1
		}
	fi
	rm -f "$work/driver" "$work/said"
}

# ---- making ---------------------------------------------------------------------------------------------------------

# Nothing that was here before may end up in the list.
make_part() {
	! has_part "$1" "$4" || fail "there is a link $4 on $1 already, not of ours"
	record part "$1" "$4"
	links "$1" "dladm create-part -t -l $2 -P $3 $4" || fail "no partition $3 on $2"
}

# Side a has a second link if there is a port for it.
spare=ipoibs0
spare_net() {
	[ "$1" = b ] || [ -z "$A_PORT2" ] || echo "; add net; set physical=$spare; end"
}

make_zone() {
	name=$(zone "$1")
	[ -z "$(zone_state "$name")" ] || fail "there is a zone $name already, not of ours"
	parent=$(zoneadm -z "$ZONE_TEMPLATE" list -p | cut -d : -f 4)
	parent=${parent%/*}
	# Of no net nothing can be removed.
	without=
	[ -z "$(zonecfg -z "$ZONE_TEMPLATE" info net)" ] || without="remove -F net; "
	record zone "$name"
	zonecfg -z "$name" "create -t $ZONE_TEMPLATE; set zonepath=$parent/$name; set autoboot=false; set ip-type=exclusive; \
set limitpriv=default,sys_dl_config; ${without}add net; set physical=$(link "$1"); end$(spare_net "$1")" >/dev/null ||
		fail "zone $name cannot be configured"
	zoneadm -z "$name" clone "$ZONE_TEMPLATE" >/dev/null || fail "zone $name cannot be cloned from $ZONE_TEMPLATE"
	zoneadm -z "$name" boot || fail "zone $name does not boot"
	within 180 stack "$1" "ipadm show-if -p -o ifname" || fail "zone $name does not come up"
}

make_if() {
	record if "$1" "$2"
	stack "$1" "ipadm create-if -t $2" || fail "$1: no interface on $2"
}

# The first IPv6 address of an interface has to be a link-local one.
make_link_local() {
	record address "$1" "$2/ll"
	stack "$1" "ipadm create-addr -t -T addrconf $2/ll" || fail "$1: no link-local address on $2"
}

make_address() {
	record address "$1" "$2/$3"
	stack "$1" "ipadm create-addr -t -T static -a $4 $2/$3" || fail "$1: no address $4 on $2"
}

# Interface and addresses of a side, unless they are there.
plumb() {
	has_if "$1" "$(link "$1")" || make_if "$1" "$(link "$1")"
	has_address "$1" "$(link "$1")/v4" || make_address "$1" "$(link "$1")" v4 "$(of "$1" address)/24"
	has_address "$1" "$(link "$1")/ll" || make_link_local "$1" "$(link "$1")"
	has_address "$1" "$(link "$1")/v6" || make_address "$1" "$(link "$1")" v6 "$(of "$1" address6)/64"
}

set_up() {
	for at in a b; do
		make_part "$at" "$(of "$at" port)" "$PKEY" "$(link "$at")"
		links "$at" "dladm set-linkprop -t -p linkmode=ud $(link "$at")" || fail "$at: linkmode cannot be ud"
	done
	if [ -n "$A_PORT2" ]; then
		make_part a "$A_PORT2" "$PKEY" "$spare"
		links a "dladm set-linkprop -t -p linkmode=ud $spare" || fail "$A_PORT2: linkmode cannot be ud"
	fi
	if [ "$SIDES" = zones ]; then
		for at in a b; do make_zone "$at"; done
	fi
	for at in a b; do plumb "$at"; done
	answers a "$B_ADDR" 60 || fail "b does not answer a"
}

# ---- asking ---------------------------------------------------------------------------------------------------------

# Whether side $1 gets an answer from $2 within $3 seconds.
answers() {
	within "$3" stack "$1" "ping $2 1"
}

# Every one of $4 echoes of $3 bytes from side $1 to $2 comes back.
all_answered() {
	stack "$1" "ping -s -n -I 0.05 $2 $3 $4" 2>/dev/null |
		grep "^$4 packets transmitted, $4 packets received" >/dev/null
}

link_is() {
	[ "$(stack "$1" "dladm show-link -p -o state $(link "$1")")" = "$2" ]
}
mtu() {
	stack "$1" "dladm show-link -p -o mtu $(link "$1")"
}
# A link's properties are there only where it was made.
property() {
	links "$1" "dladm show-linkprop -c -o value -p $3 $2"
}
# A statistic of a side's link.
kstat_of() {
	stack "$1" "kstat -p link:0:$(link "$1"):$2" | awk '{ print $2 }'
}
# The P_Keys of a port, one a line.
pkeys() {
	links "$1" "dladm show-ib -p -o pkeys $2" | tr , '\n'
}
# A P_Key as `dladm show-ib` writes it.
plain_pkey() {
	echo "$1" | sed 's/^0[xX]//' | tr '[:lower:]' '[:upper:]'
}
# Whether a command line fails where the links of a side are.
refused() {
	! links "$1" "$2" >/dev/null 2>&1
}

# The end of its input is what ends a connection: the receiver has to leave its input alone (-d); Linux's sender has to be told (-N).
sender() {
	case $1 in
	peer) echo "nc -N" ;;
	*) echo nc ;;
	esac
}
# Data of $2 MiB from side $1 to side $3 over TCP to address $4; the digests have to agree. $5: how the receiver says SHA-256.
sends() {
	sent=$SCRATCH/ipoib-tests.sent
	got=$SCRATCH/ipoib-tests.got
	record file "$1" "$sent"
	record file "$3" "$got"
	stack "$1" "dd if=/dev/urandom of=$sent bs=65536 count=$(($2 * 16))" >/dev/null 2>&1 || return 1
	background "$3" "nc -d -l $TCP_PORT >$got"
	receiver=$job
	within 10 listening "$3" || return 1
	stack "$1" "$(sender "$1") $4 $TCP_PORT <$sent" || return 1
	wait "$receiver" || return 1
	first=$(stack "$1" "$(digest_of "$1") $sent" | awk '{ print $1 }')
	second=$(stack "$3" "$(digest_of "$3") $got" | awk '{ print $1 }')
	[ -n "$first" ] && [ "$first" = "$second" ]
}
listening() {
	stack "$1" "netstat -an" | grep "[.:]$TCP_PORT .*LISTEN" >/dev/null
}
digest_of() {
	case $1 in
	peer) echo sha256sum ;;
	*) echo "digest -a sha256" ;;
	esac
}

# ---- cases ----------------------------------------------------------------------------------------------------------

verdict=FAIL
reason="did not run to its end"
only_needs=no
mark=0

pass() {
	verdict=PASS
	reason=${*:--}
	exit 0
}
fail() {
	verdict=FAIL
	reason=$*
	exit 1
}
skip() {
	verdict=SKIP
	reason=$*
	exit 4
}
# A figure of this machine: name, value, unit.
figure() {
	echo "$*" >>"$results/figures"
}

# The first line of a case. Exit codes are the test-runner's: 0 PASS, 4 SKIP, others FAIL.
begin() {
	case "$#.$*" in
	0.) ;;
	1.--needs) only_needs=yes ;;
	*)
		say "usage: $me [--needs]"
		exit 2
		;;
	esac
	read_config
	[ "$only_needs" = no ] || {
		trap needs_said EXIT
		return
	}
	mkdir -p "$work" "$results" || exit 1
	mark=$(recorded)
	trap finish EXIT
	trap 'fail interrupted' HUP INT TERM
}

# After the needs of a case.
ready() {
	[ "$only_needs" = no ] || pass "would run"
	[ "$mark" -gt 0 ] || fail "run setup first"
	for at in a b; do plumb "$at"; done
	answers a "$B_ADDR" 60 || fail "b does not answer a"
}

needs_said() {
	trap - EXIT
	echo "$verdict $reason"
	case $verdict in PASS) exit 0 ;; SKIP) exit 4 ;; *) exit 1 ;; esac
}

finish() {
	# A second ^C must not stop what undoes.
	trap '' HUP INT TERM
	trap - EXIT
	undo_to "$mark" || {
		verdict=FAIL
		reason="$reason; not everything could be undone"
	}
	echo "$me $verdict $reason" >>"$results/report"
	echo "$me $verdict $reason"
	case $verdict in PASS) exit 0 ;; SKIP) exit 4 ;; *) exit 1 ;; esac
}

needs_command() {
	at=$1
	shift
	for command in "$@"; do
		case $SIDES.$at in
		# The zones are not there yet; they have what the machine has.
		zones.[ab]) command -v "$command" >/dev/null ;;
		*) stack "$at" "command -v $command" >/dev/null 2>&1 ;;
		esac || skip "no $command on $at"
	done
}
needs_said_in_config() {
	for name in "$@"; do
		eval "[ -n \"\$$name\" ]" || skip "$name is not set"
	done
}
needs_pkey() {
	pkeys a "$A_PORT" | among "$(plain_pkey "$1")" || skip "port $A_PORT does not have P_Key $1"
}
