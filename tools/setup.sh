#!/bin/sh
# Makes sure that what a make target needs is there: setup.sh run|test|modules|bindings|lint
#
# Debian packages are installed when run by root, without a question; otherwise one line says which are missing.
set -eu

for_what=${1:?run, test, modules, bindings or lint}

# Prints the package unless what it is for is there. $1: package; the rest: one command, or a pattern of files.
missing() {
	package=$1
	shift
	for candidate in "$@"; do
		case $candidate in
		/*) [ -e "$candidate" ] && return ;;
		*) command -v "$candidate" >/dev/null && return ;;
		esac
	done
	printf ' %s' "$package"
}

wanted() {
	missing gcc gcc
	missing binutils objcopy
	missing libc6-dev /usr/include/stdio.h
	case $for_what in
	test | bindings | lint) missing libclang-dev /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* ;;
	esac
	case $for_what in
	run | test)
		# Only root can lay cables to Linux's own programs.
		if [ "$(id -u)" -eq 0 ]; then
			missing iproute2 ip
			missing ethtool ethtool
			missing iputils-ping ping
			missing curl curl
			missing busybox busybox
		fi
		;;
	esac
	case $for_what in
	test)
		missing tshark tshark
		missing mandoc mandoc
		missing git git
		missing gdb gdb
		if [ "$(id -u)" -eq 0 ]; then
			missing dnsmasq-base dnsmasq
			missing dropbear-bin dropbear
			missing iperf3 iperf3
		fi
		;;
	lint) missing shellcheck shellcheck ;;
	esac
	if [ "$for_what" = test ] || [ "${SM:-}" = opensm ]; then
		missing opensm opensm
		missing ibsim-utils ibsim
		missing libumad2sim0 /usr/lib/*/umad2sim/libumad2sim.so /usr/lib*/umad2sim/libumad2sim.so
	fi
}

packages=$(wanted)
if [ -n "$packages" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "make $for_what needs these Debian packages: apt-get install$packages" >&2
		exit 1
	fi
	echo "installing$packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # a list
	apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi

if ! command -v cargo >/dev/null; then
	echo "make $for_what needs Rust: https://rustup.rs" >&2
	exit 1
fi
# rust-toolchain.toml pins the toolchain; rustup fetches it on the first call of any of its tools.
libdir=$(rustc --print target-libdir --target x86_64-unknown-none)
if [ ! -d "$libdir" ]; then
	rustup target add x86_64-unknown-none
fi
