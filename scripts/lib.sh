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

# part NAME CMD...: run a part of the tests, and say how long it took. It reads no input.
# Not after || or in a condition: there a shell goes on after what fails.
part() {
	part=$1 began=$(date +%s)
	shift
	say "$part"
	set +e
	(set -e && "$@") </dev/null
	status=$?
	set -e
	took=$(($(date +%s) - began))
	[ $status = 0 ] || die "$part: failed after $took s"
	say "$part: $took s"
	parts="${parts:+$parts, }$part $took s"
}

# left_out WHAT WHY: say that it is left out. Where every test is wanted, that is a failure.
left_out() {
	[ -z "${EVERY_TEST:-}" ] || die "$1: left out: $2"
	say "$1: left out: $2"
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

# bootstrap ARG...: mmdebstrap, without documentation and translations.
bootstrap() {
	as_root mmdebstrap --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' "$@"
}

# unpack ARG...: bootstrap, with packages that are unpacked and not configured: that is
# quick, and enough to compile and to take files from.
unpack() { bootstrap --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr "$@"; }

# get_tree bootstrap|unpack WHAT DIR SUITE PACKAGES ARG...: make DIR/tree of that Debian release with
# these packages, a list with commas.
get_tree() {
	how=$1 what=$2 dir=$3 suite=$4 packages=$5
	shift 5
	command -v mmdebstrap >/dev/null || die "this takes mmdebstrap: make setup"
	say "$what: getting packages of Debian $suite into build/${dir#"$build/"}"
	rm -f "$dir/recipe"
	mkdir -p "$dir"
	"$top/scripts/mirror" "$suite" >"$dir/list"
	as_root rm -rf "$dir/tree"
	"$how" "$@" --include="$packages" "$suite" "$dir/tree" "$dir/list" >"$dir/log" 2>&1 || {
		tail -20 "$dir/log" >&2
		die "making build/${dir#"$build/"}/tree failed; the whole output is in $dir/log"
	}
}

# pack_tree DIR: make DIR/tree.cpio of DIR/tree, which goes. The lab looks for the name tree.
pack_tree() {
	as_root sh -c 'cd "$1/tree" && rm -rf var/cache/apt/*.bin usr/share/locale && find dev -mindepth 1 -delete' sh "$1"
	as_root sh -c 'cd "$1" && find tree | sort | cpio -o -H newc --quiet' sh "$1" >"$1/tree.cpio"
	as_root rm -rf "$1/tree"
}

# libraries_of ROOT PROGRAM: what the program is linked with there.
libraries_of() { as_root chroot "$1" /lib64/ld-linux-x86-64.so.2 --list "$2" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p'; }

# apt_there ARG...: apt-get in the directory $there, which sees the sources in its file list
# alone, and takes the packages in the file $there_status for installed, if it is set.
apt_there() {
	mkdir -p "${there:?}/lists/partial"
	(cd "$there" && apt-get -qq -o Dir::Etc::SourceList="$there/list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$there/lists" ${there_status:+-o Dir::State::status="$there_status"} \
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= "$@")
}

# compile_kernel ARG...: $CC, or gcc, with the kernel's code in userspace, in the top of the tree.
compile_kernel() {
	"${CC:-gcc}" -std=gnu11 -g -Wall -Wextra -Werror -Wno-sign-compare -Wno-unused-parameter -Wno-missing-field-initializers \
		-isystem /nonexistent -I kernel/common -I kernel/compat -I kernel/common/tests/shim "$@"
}

# What every kernel root has besides its kernel: the compiler, what the kernel's
# build calls for a module, fio, and the file systems of tests.
root_packages() { echo gcc,make,dash,coreutils,findutils,grep,mawk,sed,fio,e2fsprogs,xfsprogs; }

# The kernels, one in a row; the file says what its columns are.
kernels=$top/internal/kernels/kernels.txt

# lines_that TESTS...: the kernel lines whose row has one of these in the column "tests".
lines_that() {
	awk -v tests=" $* " '!/^#/ && index(tests, " " $4 " ") { print $1 }' "$kernels"
}

# lines_of KERNEL: the lines that a value of KERNEL= names: lines; all, which are those
# that every change is tested on; stable, those of them that are of a release of Debian.
lines_of() {
	for line in ${1:-default}; do
		case $line in
		default) lines_that whole | head -n 1 ;;
		all) lines_that whole short ;;
		stable) awk '!/^#/ && $4 ~ /^(whole|short)$/ && $2 !~ /^sid$|-/ { print $1 }' "$kernels" ;;
		*) known "$line" && echo "$line" ;;
		esac
	done
}

# column LINE N: that column of the line's row. LINE-generic has the row of LINE, and so has
# LINE-build, the tree that libaps is built in for programs.
column() {
	row=${1%-generic}
	awk -v line="${row%-build}" -v n="$2" '$1 == line { print $n }' "$kernels"
}

# known LINE: stop unless the line has a row.
known() {
	[ -n "$(column "$1" 1)" ] ||
		die "KERNEL=$1: unknown kernel line; allowed: all, stable, $(awk '!/^#/ { printf "%s%s", comma, $1; comma = ", " }' "$kernels"), and LINE-generic"
}

# suite_of LINE: the Debian release whose kernel is of that line. What is built with its
# compiler, and the programs that run there, are of the same release.
suite_of() {
	known "$1"
	suite=$(column "$1" 2)
	echo "${suite%-backports}"
}

# package_of LINE: which of Debian's builds of the kernel the line is. The cloud flavour
# lacks most drivers of disks; the generic one has them. Or source-N: it is built here.
package_of() {
	case $1 in
	*-generic) column "$1" 3 | sed 's/cloud-amd64$/amd64/' ;;
	*) column "$1" 3 ;;
	esac
}

# root_of LINE: the tree in build/roots with that line's compiler, headers and
# programs. The lines that are built here share one.
root_of() {
	case $(package_of "$1") in
	source-*) echo debug ;;
	*) echo "$1" ;;
	esac
}

# obj_of LINE: where modules are built in that tree, for those inside of it.
obj_of() {
	case $(package_of "$1") in
	source-*) echo "/isolio/obj-$1" ;;
	*) echo /isolio/obj ;;
	esac
}

# cross_of LINE: the prefix of the compiler's name for a line of another
# architecture, which is compiled for and not booted; "" for others.
cross_of() {
	case $(package_of "$1") in
	arm64) echo aarch64-linux-gnu- ;;
	esac
}

# kernel_packages LINE: the kernel and its headers, and what only this line's tests
# call: those of drivers make file systems and stacks. Backports give a package only
# if its suite is named; their kernel takes their linux-base. Of another
# architecture, what its headers are used with: setup-kernel adds those.
kernel_packages() {
	set -- "$1" "$(package_of "$1")" "$(column "$1" 2)"
	case $3 in
	*-backports) packages=linux-image-$2/$3,linux-headers-$2/$3,linux-base/$3 ;;
	*) packages=linux-image-$2,linux-headers-$2 ;;
	esac
	case $1 in
	*-generic) packages=$packages,btrfs-progs,dmsetup,mdadm,util-linux ;;
	esac
	[ "$2" != arm64 ] || packages=linux-headers-cloud-amd64,gcc-aarch64-linux-gnu
	echo "$packages"
}

# need_root LINE: stop unless there is a complete tree in build/roots.
need_root() {
	known "$1"
	[ -e "$build/roots/$(root_of "$1")/isolio/recipe" ] ||
		die "there is no root of kernel $1 in build/: run \`make setup KERNEL=$1\` first"
}

# need_kernel LINE: stop unless `make setup` has made that kernel's root.
need_kernel() {
	known "$1"
	[ -e "$build/kernel/$1/release" ] ||
		die "there is no kernel $1 in build/: run \`make setup KERNEL=$1\` first"
}

# copy_changed FROM TO: copy unless both hold the same, so that the time of an
# unchanged file stays and nothing is built again.
copy_changed() {
	cmp -s "$1" "$2" || cp "$1" "$2"
}
