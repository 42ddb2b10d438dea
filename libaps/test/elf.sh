#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: elf.sh LIBRARY
# Check how the shared library was linked: its relocations are read-only before the
# program starts, its stack is not executable, it exports versioned aps_ symbols alone.
set -eu
LC_ALL=C
export LC_ALL
lib=$1 failed=0

expect() {
	if "$2" "$3"; then
		echo "ok - $1"
	else
		echo "not ok - $1"
		failed=1
	fi
}

has() { readelf -dlW "$lib" | grep -q -- "$1"; }
lacks() { ! has "$1"; }
exports_only() { ! nm -D --defined-only --with-symbol-versions "$lib" | awk '$2 != "A" { print $3 }' | grep -v -- "$1"; }

readelf -h "$lib" >/dev/null
expect 'relocations are resolved at the start' has 'FLAGS.*NOW'
expect 'and read-only from then on' has GNU_RELRO
expect 'the stack is not executable' lacks 'GNU_STACK .* RWE '
expect 'the library has a stack header' has GNU_STACK
expect 'it stays loaded: threads call it when they end' has 'FLAGS_1.*NODELETE'
expect 'every exported symbol is aps_ and has a version' exports_only '^aps_[a-z_]*@@APS_[0-9.]*$'
expect 'all symbols are of 1.0' exports_only '@@APS_1\.0$'
[ "$failed" = 0 ]
