#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: sqlite.sh OUT
# SQLite's own shell with OUT/aps-sqlite.so, where it is installed: the same statements through
# either VFS make the same file, byte for byte; two shells that write at once lose nothing; a
# shell that is killed leaves a whole database.
set -eu
LC_ALL=C
export LC_ALL
out=$1 failed=0
command -v sqlite3 >/dev/null || {
	echo '# there is no sqlite3'
	exit 0
}
dir=$(mktemp -d "$out/sqlite.XXXXXX")
trap 'rm -rf "$dir"' EXIT

expect() {
	if [ "$2" = "$3" ]; then
		echo "ok - $1"
	else
		echo "not ok - $1: $2, want $3"
		failed=1
	fi
}

# shell DB: sqlite3 through the VFS, with the statements of its input.
shell() {
	{
		printf '%s\n' ".load $out/aps-sqlite" ".open file:$dir/$1?vfs=aps" '.timeout 60000'
		cat
	} | sqlite3 2>&1
}

statements() {
	printf '%s\n' "PRAGMA page_size = $2;" "PRAGMA journal_mode = $1;" 'PRAGMA cache_size = 5;' 'PRAGMA synchronous = off;' \
		'CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB, x TEXT); CREATE INDEX tx ON t (x);' \
		'WITH RECURSIVE r (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 2000) INSERT INTO t SELECT k, zeroblob(k % 3000), hex(k * 7919) FROM r;' \
		'UPDATE t SET v = zeroblob(k % 500) WHERE k % 3 = 0; DELETE FROM t WHERE k % 7 = 0;' \
		'BEGIN; DELETE FROM t; ROLLBACK;' 'BEGIN; UPDATE t SET x = k; SAVEPOINT a; DELETE FROM t WHERE k > 100; ROLLBACK TO a; COMMIT;' \
		'PRAGMA wal_checkpoint(truncate);'
}

for journal in delete truncate persist memory wal; do
	for page in 512 4096 65536; do
		statements $journal $page | shell a >"$dir/said-a"
		statements $journal $page | sqlite3 "$dir/b" >"$dir/said-b" 2>&1
		cmp -s "$dir/a" "$dir/b" && same=yes || same=no
		expect "journal $journal, pages of $page: the same bytes" "$same" yes
		cmp -s "$dir/said-a" "$dir/said-b" && same=yes || same=no
		expect 'and the same answers' "$same" yes
		expect 'and a whole database' "$(sqlite3 "$dir/a" 'PRAGMA integrity_check; SELECT count(*) FROM t;' | tr '\n' ' ')" 'ok 1715 '
		rm -f "$dir"/[ab] "$dir"/[ab]-*
	done
done

# add DB FROM: one row a transaction, 200 of them.
add() {
	i=0
	while [ $i -lt 200 ]; do
		echo "BEGIN IMMEDIATE; INSERT INTO t VALUES ($2 + $i, randomblob(2000)); COMMIT;"
		i=$((i + 1))
	done | shell "$1"
}

for journal in wal delete; do
	echo "PRAGMA journal_mode = $journal; CREATE TABLE t (k INTEGER PRIMARY KEY, v);" | shell two >/dev/null
	add two 1000 >"$dir/first" &
	add two 5000 >"$dir/second"
	wait $!
	expect "journal $journal: two shells write at once" "$(cat "$dir/first" "$dir/second")" ''
	expect 'and lose nothing' "$(echo 'SELECT count(*), count(DISTINCT k) FROM t; PRAGMA integrity_check;' | shell two | tr '\n' ' ')" '400|400 ok '
	rm -f "$dir"/two*

	echo "PRAGMA journal_mode = $journal; CREATE TABLE t (k INTEGER PRIMARY KEY, v, w);" | shell killed >/dev/null
	whole=yes
	for pause in 0.05 0.11 0.17 0.29; do
		{
			while :; do
				echo "BEGIN; INSERT INTO t VALUES (NULL, 1, randomblob(3000)); INSERT INTO t VALUES (NULL, -1, randomblob(3000)); COMMIT;"
			done | exec sqlite3 -cmd ".load $out/aps-sqlite" -cmd ".open file:$dir/killed?vfs=aps" -cmd 'PRAGMA cache_size = 3' >/dev/null 2>&1
		} &
		group=$!
		sleep $pause
		# The shell that is fed, which has the database open.
		for fd in /proc/[0-9]*/fd/*; do
			[ "$(readlink "$fd" || :)" = "$dir/killed" ] || continue
			pid=${fd#/proc/}
			kill -9 "${pid%%/*}" 2>/dev/null || :
		done
		wait $group || :
		[ "$(sqlite3 "$dir/killed" 'PRAGMA integrity_check; SELECT coalesce(sum(v), 0) FROM t;' | tr '\n' ' ')" = 'ok 0 ' ] || whole=no
	done
	expect "journal $journal: a shell that is killed leaves whole transactions" $whole yes
	expect 'of which there are some' "$(sqlite3 "$dir/killed" 'SELECT count(*) > 0 FROM t')" 1
	rm -f "$dir"/killed*
done
[ "$failed" = 0 ]
