#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: examples.sh OUT
# Run the examples on files in OUT; compile the headers as other languages see them, strict
# C99 and C++11; and link with the library that `make install` put in OUT/installed.
set -eu
out=$1 failed=0
dir=$(mktemp -d "$out/examples.XXXXXX")
trap 'rm -rf "$dir"' EXIT

expect() {
	name=$1 want=$2
	shift 2
	got=$("$@" 2>&1) || got="exit status $?: $got"
	# shellcheck disable=SC2254 # what is wanted is a pattern
	case $got in
	$want) echo "ok - $name" ;;
	*)
		echo "not ok - $name: $got"
		failed=1
		;;
	esac
}

dd if=/dev/urandom of="$dir/a" bs=65536 count=16 2>/dev/null
dd if=/dev/urandom of="$dir/b" bs=4096 count=65 2>/dev/null
: >"$dir/empty"
expect 'aps-scan reads all of three files' '1314816 bytes in 3 files' "$out/aps-scan" "$dir/a" "$dir/empty" "$dir/b"
expect 'aps-scan names what it cannot open, and why' "exit status 1: aps-scan: $dir/none: No such file or directory" "$out/aps-scan" "$dir/a" "$dir/none"
mkdir "$dir/dir"
expect 'and what it cannot read' "exit status 1: aps-scan: $dir/dir: *" "$out/aps-scan" "$dir/dir"
expect 'own-ring reads with a plan' '1000 reads, the last of 4096 bytes; a read takes *.? us' "$out/own-ring" "$dir/a"
dd if=/dev/zero of="$dir/c" bs=65536 count=64 2>/dev/null
for mode in aps poll interrupt; do
	expect "reactor has reads, in mode $mode, and scans in one loop" '[1-9]* reads of *.? us; [1-9]* scans; * % CPU' "$out/reactor" "$dir/c" 1 $mode
done
for header in aps aps_policy; do
	printf '#include <%s.h>\nint main(void) { return sizeof(struct aps_options) > 64; }\n' "$header" >"$dir/$header.c"
	cp "$dir/$header.c" "$dir/$header.cc"
	expect "$header.h is strict C99" '' gcc -std=c99 -D_DEFAULT_SOURCE -pedantic-errors -Wall -Wextra -Werror -Iinclude -fsyntax-only "$dir/$header.c"
	if command -v g++ >/dev/null; then
		expect "$header.h is C++11" '' g++ -std=c++11 -pedantic-errors -Wall -Wextra -Werror -Iinclude -fsyntax-only "$dir/$header.cc"
	fi
done
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$out/installed/usr/lib/pkgconfig"
	# shellcheck disable=SC2046 # flags, of which each is a word
	expect 'a program links with the flags of pkg-config' '' gcc -o "$dir/scan" examples/aps-scan.c $(pkg-config --define-variable=prefix="$out/installed/usr" --cflags --libs libaps)
	expect 'and runs' '1314816 bytes in 3 files' env LD_LIBRARY_PATH="$out/installed/usr/lib" "$dir/scan" "$dir/a" "$dir/empty" "$dir/b"
fi
if command -v cmake >/dev/null; then
	mkdir "$dir/cmake"
	cp examples/aps-scan.c "$dir/cmake/"
	cat >"$dir/cmake/CMakeLists.txt" <<-'END'
		cmake_minimum_required(VERSION 3.18)
		project(scan C)
		find_package(libaps 1.0 REQUIRED)
		add_executable(scan aps-scan.c)
		target_link_libraries(scan libaps::aps)
	END
	expect 'a program is built with CMake' '*' sh -c "cd '$dir/cmake' && cmake -DCMAKE_PREFIX_PATH='$out/installed/usr' . >log && cmake --build . >>log || cat log"
	expect 'and runs' '1314816 bytes in 3 files' env LD_LIBRARY_PATH="$out/installed/usr/lib" "$dir/cmake/scan" "$dir/a" "$dir/empty" "$dir/b"
fi
[ "$failed" = 0 ]
