#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: valgrind.sh OUT ARG...
# The tests of I/O under valgrind, which finds what ASan does not: the use of memory that
# was not initialised. With EVERY_TEST in every configuration. Those of forks are not among
# them: valgrind 3.19 itself crashes in the child of a process that has a ring.
set -eu
out=$1
shift
command -v valgrind >/dev/null || { echo '# skipped: no valgrind'; [ -z "${EVERY_TEST:-}" ] || exit 1; exit 0; }
log=$out/valgrind.log
valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ring-plain" ${EVERY_TEST:+--matrix} "$@" >"$log" 2>&1 ||
	{ cat "$log"; exit 1; }
if grep '^==' "$log"; then
	exit 1
fi
echo "ok - $(grep -c '^ok' "$log") tests under valgrind"
