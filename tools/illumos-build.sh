#!/bin/sh
# Builds the modules on an illumos machine that has no gate: the C shims with its own compiler from its own headers, the Rust
# parts with cargo, joined by its own linker.
#
# usage: tools/illumos-build.sh [-n] [-o DIR]
#
# -n      print the commands, run none
# -o DIR  where kernel/... is put; target/illumos if not said
#
# CC, LD, CARGO   the tools: gcc, /usr/bin/ld, cargo
# HEADERS         where the kernel's headers are: /usr/include (package system/header)
# MODULE_TYPE     what makes LD link a kernel module, if not what it says of itself decides
set -u

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
to=target/illumos
dry=no
CC=${CC:-gcc}
LD=${LD:-/usr/bin/ld}
CARGO=${CARGO:-cargo}
HEADERS=${HEADERS:-/usr/include}

fail() {
	echo "illumos-build: $*" >&2
	exit 1
}
while getopts no: option; do
	case $option in
	n) dry=yes ;;
	o) to=$OPTARG ;;
	*)
		echo "usage: tools/illumos-build.sh [-n] [-o DIR]" >&2
		exit 2
		;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || {
	echo "usage: tools/illumos-build.sh [-n] [-o DIR]" >&2
	exit 2
}

# ---- what is needed, all of it before anything is written -----------------------------------------------------------

[ "$(uname -s)" = SunOS ] || fail "this is for an illumos machine; elsewhere \`make modules\` builds what the lab loads"
for tool in "${CC%% *}" "${LD%% *}" "${CARGO%% *}" gld gobjcopy; do
	command -v "$tool" >/dev/null || fail "no $tool: install gcc, GNU binutils and Rust"
done
for header in types conf devops modctl ddi sunddi; do
	[ -f "$HEADERS/sys/$header.h" ] || fail "no $HEADERS/sys/$header.h: install the package system/header"
done
CDPATH='' cd -- "$root" || exit 1
# Since 2021 the linker has a type of its own for modules.
[ -n "${MODULE_TYPE:-}" ] || case $($LD -z help 2>&1) in
*type=*) MODULE_TYPE=-ztype=kmod ;;
*) MODULE_TYPE="-r -dy" ;;
esac

# ---- the build ------------------------------------------------------------------------------------------------------

# As tools/kmod has them for the lab's objects, which are tested; only the headers are the machine's.
cflags="-O2 -std=gnu99 -m64 -mcmodel=kernel -mno-red-zone -ffreestanding -fno-pic -fno-pie -fno-omit-frame-pointer
	-fno-shrink-wrap -fno-optimize-sibling-calls -fno-strict-aliasing -fno-asynchronous-unwind-tables
	-fno-unwind-tables -fno-stack-protector -fcf-protection=none -mno-sse -mno-mmx -mno-80387 -fno-common -fno-builtin
	-Wall -Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion
	-D_KERNEL -D_SYSCALL32 -D_SYSCALL32_IMPL -D_ELF64 -D_DDI_STRICT -Dsun -D__sun -D__SVR4"

run() {
	echo "$*"
	[ "$dry" = yes ] || "$@" || fail "that failed"
}

# module CLASS NAME CRATE SHIM DEPENDENCY...
# shellcheck disable=SC2086 # lists of words
module() {
	class=$1 name=$2 crate=$3 shim=$4
	shift 4
	objects=$to/objects/$name
	needed=
	for dependency in "$@"; do needed="$needed -N$dependency"; done
	run mkdir -p "$objects" "$to/kernel/$class/amd64"
	run $CARGO run --quiet -p kmod -- object "$crate" --output "$objects/rust.o"
	run $CC $cflags "-DKMOD_NAME=\"$name\"" -DKMOD_NEEDED_BY_LD -I "$HEADERS" -c "$shim" -o "$objects/shim.o"
	run $LD $MODULE_TYPE $needed -o "$to/kernel/$class/amd64/$name" "$objects/rust.o" "$objects/shim.o"
}

# As tools/kmod/modules.toml says.
driver_shim=usr/src/uts/common/io/ib/clients/ibd/ibd_linkage.c
module mac mac_ib mac_ib usr/src/uts/common/io/mac/plugins/mac_ib/mac_ib_linkage.c misc/mac
for name in ibd ibp; do
	module drv $name ibd $driver_shim misc/mac misc/ibtl misc/ibcm misc/dls drv/dld
	run cp "usr/src/uts/common/io/ib/clients/ibd/$name.conf" "$to/kernel/drv/$name.conf"
done
adapter=usr/src/uts/common/io/ib/adapters/swhca
module drv swhca swhca $adapter/swhca_linkage.c drv/ib misc/ibtl
run cp "$adapter/swhca.conf" "$to/kernel/drv/swhca.conf"
