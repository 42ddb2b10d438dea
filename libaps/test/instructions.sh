#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: instructions.sh OUT
# Count instructions, with valgrind: those of a decision, at three loads, and those that
# aps_read() has besides the ones of liburing and the kernel. Each is the difference of runs
# of two lengths, so that starting and opening is left out.
set -eu
LC_ALL=C
export LC_ALL
out=$1 failed=0
command -v valgrind >/dev/null || {
	echo '# instructions are not counted: there is no valgrind'
	[ -z "${EVERY_TEST:-}" ] || exit 1
	exit 0
}
file=$(mktemp "$out/instructions.XXXXXX")
trap 'rm -f "$file"' EXIT
dd if=/dev/zero of="$file" bs=4096 count=1 2>/dev/null

# count WAY NR WHAT: all instructions that the program executes.
count() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$out/instructions" "$@" 2>&1 |
		awk '/Collected/ { print $NF; found = 1 } END { exit !found }'
}

# each WAY WHAT: instructions of one turn.
each() {
	short=$(count "$1" 1000 "$2") long=$(count "$1" 11000 "$2")
	echo $(((long - short + 5000) / 10000))
}

report() {
	if [ "$2" -le "$3" ]; then
		echo "ok - $1: $2 instructions, at most $3"
	else
		echo "not ok - $1: $2 instructions, at most $3"
		failed=1
	fi
}

loop=$(each none 0)
for ppm in 0 60000 1000000; do
	report "a decision with $ppm ppm of the CPUs in use" $(($(each decide $ppm) - loop)) 260
done
report 'aps_read() besides liburing' $(($(each interrupt "$file") - $(each raw "$file"))) 800
[ "$failed" = 0 ]
