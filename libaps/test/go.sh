#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: go.sh OUT
# Test the package for Go, and its example's build, with the library that `make install` put
# in OUT/installed.
set -eu
out=$1
go=$(command -v go) || { echo '# skipped: no go'; [ -z "${EVERY_TEST:-}" ] || exit 1; exit 0; }
command -v pkg-config >/dev/null || { echo '# skipped: no pkg-config'; [ -z "${EVERY_TEST:-}" ] || exit 1; exit 0; }
dir=$(mktemp -d "$out/go.XXXXXX")
trap 'rm -rf "$dir"' EXIT
sed "s|^prefix=.*|prefix=$out/installed/usr|" "$out/installed/usr/lib/pkgconfig/libaps.pc" >"$dir/libaps.pc"
# go caches what pkg-config said before.
export CGO_LDFLAGS="-L$out/installed/usr/lib" PKG_CONFIG_PATH="$dir" LD_LIBRARY_PATH="$out/installed/usr/lib" CGO_ENABLED=1 TMPDIR="$dir"
cd go
if "$go" vet . >"$dir/log" 2>&1 && "$go" test -count=1 . >>"$dir/log" 2>&1; then
	echo 'ok - the package for Go'
else
	echo 'not ok - the package for Go'
	cat "$dir/log"
	exit 1
fi
