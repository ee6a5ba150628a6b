#!/bin/sh
# Makes sure that what a make target needs is there: setup.sh run|test|metal|modules|bindings|lint [--list]
#
# Debian packages are installed when run by root, without a question; otherwise one line says which are missing. With --list
# they are printed, and nothing is installed. illumos's distributions have packages of other names: there the commands that the
# modules are built with are named.
set -eu

for_what=${1:?run, test, metal, modules, bindings or lint}
usr=${SYSROOT:-}/usr

# Prints the package unless the command after it succeeds.
need() {
	package=$1
	shift
	"$@" || printf ' %s' "$package"
}

# All of these commands are there.
have() {
	for name; do
		command -v "$name" >/dev/null || return 1
	done
}

# The command calls itself by this word: others have the same name and other options. $1: word; the rest: how it is asked.
is() {
	word=$1
	shift
	"$@" 2>&1 | grep -q "$word"
}

# One of these files is there. SYSROOT is empty but in a test of this script.
file() {
	for candidate; do
		[ -e "$candidate" ] && return
	done
	return 1
}

# The C interface to clang, as bindgen looks for it. libclang-cpp is another library.
libclang() {
	[ -n "${LIBCLANG_PATH:-}" ] && return
	for directory in "$usr"/lib "$usr"/lib64 "$usr"/lib/*-linux-gnu "$usr"/lib/llvm-*/lib "$usr"/local/lib; do
		file "$directory"/libclang.so "$directory"/libclang.so.[0-9]* "$directory"/libclang-[0-9]*.so* && return
	done
	return 1
}

wanted() {
	if [ "$(uname -s)" = SunOS ]; then
		# Without cc rustc calls gcc; GNU's ld and objcopy are not those under the plain names.
		for command in gcc gld gobjcopy; do need "$command" have "$command"; done
		return
	fi
	need gcc have gcc cc
	need binutils have ld objcopy
	need libc6-dev file "$usr"/include/stdio.h
	case $for_what in
	test | bindings | lint) need libclang-dev libclang ;;
	esac
	case $for_what in
	run | test)
		# Only root can lay cables to Linux's own programs.
		if [ "$(id -u)" -eq 0 ]; then
			need iproute2 is iproute2 ip -V
			need ethtool have ethtool
			need iputils-ping is iputils ping -V
			need curl have curl
			need busybox is httpd busybox --list
		fi
		;;
	esac
	case $for_what in
	test)
		need tshark have tshark
		need mandoc have mandoc
		need git have git
		need gdb have gdb
		need valgrind have valgrind
		if [ "$(id -u)" -eq 0 ]; then
			need dnsmasq-base have dnsmasq
			need dropbear-bin have dropbear dropbearkey dbclient
			need iperf3 have iperf3
		fi
		;;
	lint) need shellcheck have shellcheck ;;
	metal)
		# What a gate is made with, and what runs it.
		need mawk have awk
		need perl have perl
		need ksh have ksh
		need rpcsvc-proto have rpcgen
		need qemu-system-x86 have qemu-system-x86_64
		need gdb have gdb
		;;
	esac
	case $for_what in
	test | metal) need genisoimage have genisoimage isoinfo ;;
	esac
	if [ "$for_what" = test ] || [ "${SM:-}" = opensm ]; then
		need opensm have opensm
		need ibsim-utils have ibsim
		need libumad2sim0 file "$usr"/lib/*/umad2sim/libumad2sim.so "$usr"/lib*/umad2sim/libumad2sim.so
	fi
}

packages=$(wanted)
if [ "${2:-}" = --list ]; then
	echo "$packages"
	exit
fi
if [ -n "$packages" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		case $(uname -s) in
		SunOS) echo "make $for_what needs these commands:$packages" >&2 ;;
		*) echo "make $for_what needs these Debian packages: apt-get install$packages" >&2 ;;
		esac
		exit 1
	fi
	echo "installing$packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # a list
	apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi

if ! command -v cargo >/dev/null; then
	# rustup is a user's, and sudo hides it.
	home=$([ -z "${SUDO_USER:-}" ] || getent passwd "$SUDO_USER" | cut -d : -f 6)
	if [ -n "$home" ] && [ -x "$home/.cargo/bin/cargo" ]; then
		echo "make $for_what needs Rust, which $SUDO_USER has and root has not:" >&2
		echo "  sudo env HOME=$home PATH=$home/.cargo/bin:\"\$PATH\" make $for_what     # target/ is root's then" >&2
		exit 1
	fi
	echo "make $for_what needs Rust: https://rustup.rs" >&2
	exit 1
fi
# rust-toolchain.toml pins the toolchain; rustup fetches it on the first call of any of its tools.
libdir=$(rustc --print target-libdir --target x86_64-unknown-none)
if [ ! -d "$libdir" ]; then
	rustup target add x86_64-unknown-none
fi
