# SPDX-License-Identifier: MIT
#
# What the scripts here share; each one reads it first. Sets `top` (the
# checkout) and `build`.

set -eu
LC_ALL=C
export LC_ALL
top=$(cd "$(dirname "$0")/.." && pwd)
build=$top/build

say() { printf '%s\n' "== $*"; }

die() {
	printf '%s\n' "${0##*/}: $*" >&2
	exit 1
}

# as_root CMD...: run it as root, through sudo where needed.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "this needs root, and there is no sudo: run it as root"
	fi
}

# apt_get ARGS...: apt-get, which shows its output when it fails.
apt_get() {
	mkdir -p "$build"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy "$@" >"$build/apt.log" 2>&1 || {
		tail -20 "$build/apt.log" >&2
		die "apt-get $* failed; the whole output is in build/apt.log"
	}
}

# What every kernel root has besides its kernel: the compiler, what the kernel's
# build calls for a module, fio, and the file systems of tests.
root_packages() { echo gcc,make,dash,coreutils,findutils,grep,mawk,sed,fio,e2fsprogs,xfsprogs; }

# suite_of LINE: the Debian release whose kernel is of that line. "debug" and
# "kcsan" are built here, from Debian's source; "qemu" is that of setup-qemu. A line's
# programs, and the compiler that some are built with, are of the same release.
suite_of() {
	set -- "$1" "${1%-programs}"
	case ${2%-build} in
	6.1 | 6.1-generic) echo bookworm ;;
	6.12 | 6.12-generic | 6.12-rt | 6.12-arm64 | 7.3 | debug | kcsan | qemu) echo trixie ;;
	7.2 | 7.2-generic) echo sid ;;
	*) die "KERNEL=$1: unknown kernel line; allowed: 6.1, 6.12 and 7.2, each also with -generic, 6.12-rt, 6.12-arm64, 7.3, debug, kcsan" ;;
	esac
}

# root_of LINE: the tree in build/roots with that line's compiler, headers and
# programs. The lines that are built here share one.
root_of() {
	case $1 in
	kcsan) echo debug ;;
	*) echo "$1" ;;
	esac
}

# obj_of LINE: where modules are built in that tree, for those inside of it.
obj_of() {
	case $1 in
	kcsan) echo /isolio/obj-kcsan ;;
	*) echo /isolio/obj ;;
	esac
}

# flavour_of LINE: which of Debian's builds of the kernel the line is. The cloud
# flavour lacks most drivers of disks; the generic one has them.
flavour_of() {
	case $1 in
	*-generic) echo amd64 ;;
	6.12-rt) echo rt-amd64 ;;
	6.12-arm64) echo arm64 ;;
	*) echo cloud-amd64 ;;
	esac
}

# cross_of LINE: the prefix of the compiler's name for a line of another
# architecture, which is compiled for and not booted; "" for others.
cross_of() {
	case $1 in
	*-arm64) echo aarch64-linux-gnu- ;;
	esac
}

# kernel_packages LINE: the kernel and its headers, and what only this line's tests
# call: those of drivers make file systems and stacks. Backports give a package only
# if its suite is named; their kernel takes their linux-base. Of another
# architecture, what its headers are used with: setup-kernel adds those.
kernel_packages() {
	set -- "$1" "$(flavour_of "$1")"
	case $1 in
	7.3) echo "linux-image-$2/trixie-backports,linux-headers-$2/trixie-backports,linux-base/trixie-backports" ;;
	*-arm64) echo "linux-headers-cloud-amd64,gcc-aarch64-linux-gnu" ;;
	*-generic) echo "linux-image-$2,linux-headers-$2,btrfs-progs,dmsetup,mdadm,util-linux" ;;
	*) echo "linux-image-$2,linux-headers-$2" ;;
	esac
}

# need_root LINE: stop unless there is a complete tree in build/roots.
need_root() {
	suite_of "$1" >/dev/null
	[ -e "$build/roots/$(root_of "$1")/isolio/recipe" ] ||
		die "there is no root of kernel $1 in build/: run \`make setup KERNEL=$1\` first"
}

# need_kernel LINE: stop unless `make setup` has made that kernel's root.
need_kernel() {
	suite_of "$1" >/dev/null
	[ -e "$build/kernel/$1/release" ] ||
		die "there is no kernel $1 in build/: run \`make setup KERNEL=$1\` first"
}

# copy_changed FROM TO: copy unless both hold the same, so that the time of an
# unchanged file stays and nothing is built again.
copy_changed() {
	cmp -s "$1" "$2" || cp "$1" "$2"
}
