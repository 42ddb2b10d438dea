#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: sqlite-suite.sh OUT SOURCE [TEST]...
# SQLite's own tests with the VFS of libaps as the default one. OUT has libaps.a; SOURCE is
# SQLite's source with its directory `test` (Debian: apt-get source sqlite3; it takes tcl-dev
# and zlib1g-dev). TEST is the name of a file there, without .test; those that read and write
# databases if there is none. What fails with either VFS is no finding: some tests fail for
# root.
set -eu
LC_ALL=C
export LC_ALL
[ $# -ge 2 ] || {
	echo 'usage: sqlite-suite.sh OUT SOURCE [TEST]...' >&2
	exit 2
}
out=$(realpath "$1") source=$(realpath "$2") own=$(realpath "$(dirname "$0")/..") failed=0
shift 2
[ $# -gt 0 ] || set -- atomic attach autovacuum avtrans backup backup2 bigrow blob cache corrupt corrupt2 crash crash2 crash3 \
	crash8 delete e_walauto exclusive exclusive2 filectrl incrblob incrvacuum index insert io journal1 journal2 journal3 \
	jrnlmode jrnlmode2 lock lock2 lock4 pager1 pagesize rollback rollback2 savepoint savepoint2 select1 shared superlock \
	sync tempdb trans trans2 trans3 update uri vacuum vacuum2 wal wal2 wal3 wal5 walbak walcksum walmode walnoshm walro zeroblob
work=$out/sqlite-suite
mkdir -p "$work"
cd "$work"
if [ ! -x testfixture ]; then
	"$source/configure" CFLAGS=-O1 >configure.log 2>&1
	make sqlite3.c sqlite3ext.h >make.log 2>&1
	gcc -O1 -DSQLITE_CORE -I. -I"$own/include" -c "$own/sqlite/aps-sqlite.c" -o aps-sqlite.o
	gcc -O1 -I. -c "$own/test/sqlite_default.c" -o sqlite_default.o
	make testfixture OPTS=-DSQLITE_EXTRA_INIT=aps_sqlite_start \
		TLIBS="$work/aps-sqlite.o $work/sqlite_default.o $out/libaps.a -luring -lpthread -lm -ldl -lz" >>make.log 2>&1
fi

# failures VFS TEST: which of the file's tests fail, one a line; "no end" if it does not end.
failures() {
	mkdir -p "$1"
	(
		cd "$1"
		TEST_VFS=$1
		export TEST_VFS
		timeout "${SQLITE_SUITE_TIMEOUT:-900}" "$work/testfixture" "$source/test/$2.test" >"$2.log" 2>&1 || :
		grep -aq 'errors out of' "$2.log" || echo 'no end'
		sed -n 's/^!Failures on these tests: //p' "$2.log" | tr ' ' '\n'
	)
}

for test in "$@"; do
	failures aps "$test" >"$test.aps"
	[ ! -s "$test.aps" ] || failures unix "$test" >"$test.unix"
	new=$([ ! -s "$test.aps" ] || grep -vxFf "$test.unix" "$test.aps" || :)
	if [ -z "$new" ] && grep -qx 'no end' "$test.aps"; then
		echo "ok - $test # skip: it does not end with either VFS: $(tail -n 1 "aps/$test.log")"
	elif [ -z "$new" ]; then
		echo "ok - $test: $(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1 tests/p' "aps/$test.log")"
	else
		echo "not ok - $test: with the VFS of libaps alone: $(echo "$new" | tr '\n' ' ')"
		failed=1
	fi
done
[ "$failed" = 0 ]
