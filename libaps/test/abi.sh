#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: abi.sh OUT [--freeze]
# Compare the interface with that of 1.0, which is in abi/libaps.abi: types and prototypes
# of every exported function, as abidiff of abigail-tools sees them in pointers to each.
# Any difference fails. One that old programs do not notice, as a function more, or a member
# more at the end of aps_options or aps_stats, is taken with --freeze.
set -eu
out=$1 failed=0
command -v abidiff >/dev/null || { echo '# skipped: no abidiff: abigail-tools'; [ -z "${EVERY_TEST:-}" ] || exit 1; exit 0; }
dir=$(mktemp -d "$out/abi.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# interface INCLUDE FILE: write the interface of these headers.
interface() {
	{
		echo '#include <aps.h>'
		awk '/^\taps_/ { sub(";", ""); print "__typeof__(" $1 ") *abi_" $1 ";" }' src/libaps.map
	} >"$dir/abi.c"
	(cd "$dir" && gcc -g -shared -fPIC -I"$1" -o abi.so abi.c)
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --no-elf-needed --no-architecture \
		--out-file "$2" "$dir/abi.so"
}

# same INCLUDE: whether the interface of these headers is that of 1.0.
same() {
	interface "$1" "$dir/now.abi"
	abidiff --no-architecture abi/libaps.abi "$dir/now.abi" >"$dir/differences"
}

if [ "${2:-}" = --freeze ]; then
	interface "$PWD/include" abi/libaps.abi
	sed -i "s|path='[^']*abi.c'|path='abi.c'|" abi/libaps.abi
	exit 0
fi
if same "$PWD/include"; then
	echo 'ok - the interface is that of abi/libaps.abi'
else
	echo 'not ok - the interface is not that of abi/libaps.abi'
	cat "$dir/differences"
	failed=1
fi
# What would break a program is seen.
while read -r what change; do
	cp include/*.h "$dir/"
	sed -i "$change" "$dir/aps.h" "$dir/aps_policy.h"
	if same "$dir"; then
		echo "not ok - $what is seen"
		failed=1
	else
		echo "ok - $what is seen"
	fi
done <<'END'
a-larger-event s/uint64_t reserved\[2\];/uint64_t reserved[3];/
a-mode-in-the-middle s/APS_POLL,/APS_NAP, APS_POLL,/
another-argument s/int aps_close(struct aps \*ctx);/int aps_close(struct aps *ctx, int flags);/
END
[ "$failed" = 0 ]
