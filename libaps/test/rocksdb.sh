#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: rocksdb.sh OUT
# RocksDB's own programs with OUT/aps-rocksdb.so, where they are installed (Debian:
# rocksdb-tools): db_bench writes and checks, and ldb reads what it wrote, without the plugin.
set -eu
LC_ALL=C
export LC_ALL
out=$1 failed=0
for program in db_bench ldb; do
	command -v $program >/dev/null || {
		echo "# there is no $program: rocksdb-tools has it"
		exit 0
	}
done
dir=$(mktemp -d "$out/rocksdb.XXXXXX")
trap 'rm -rf "$dir"' EXIT

expect() {
	name=$1 want=$2 file=$3
	if grep -Eq -- "$want" "$dir/$file"; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		tail -n 5 "$dir/$file" | sed 's/^/# /'
		failed=1
	fi
}

# bench FILE URI ARGS...: db_bench through the plugin; what it says goes to the file.
bench() {
	to=$1 uri=$2
	shift 2
	LD_PRELOAD=$out/aps-rocksdb.so APS_ROCKSDB_STATS=1 db_bench --fs_uri="$uri" --db="$dir/db" --use_direct_reads \
		--num=20000 --value_size=100 --threads=4 --compression_type=none --cache_size=65536 --seed=1 "$@" >"$dir/$to" 2>&1 ||
		echo "exit status $?" >>"$dir/$to"
}

bench fill aps:// --benchmarks=fillrandom,compact,readrandom,multireadrandom,seekrandom,verifychecksum --multiread_batched
expect 'db_bench reads what it wrote' 'readrandom .*[1-9][0-9]* of [0-9]+ found' fill
expect 'all went through libaps' '^aps-rocksdb: backend io_uring, [1-9][0-9]{3,} reads, 0 errors, 0 by pread' fill
bench with-verify aps://hybrid --use_existing_db --benchmarks=readseq,readreverse,verifychecksum --async_io
expect 'and verifies it' 'verifychecksum : ' with-verify
expect 'without an error' ' 0 errors, 0 by pread' with-verify
bench none aps://spin --benchmarks=readrandom --use_existing_db
expect 'an unknown mode is refused, with those that are' 'no such mode; allowed: aps://' none
ldb --db="$dir/db" checkconsistency >"$dir/ldb" 2>&1 || echo "exit status $?" >>"$dir/ldb"
expect 'ldb finds it consistent' '^OK$' ldb
ldb --db="$dir/db" scan --hex --no_value >"$dir/scan" 2>&1 || echo "exit status $?" >>"$dir/scan"
LD_PRELOAD=$out/aps-rocksdb.so ldb --fs_uri=aps:// --db="$dir/db" scan --hex --no_value >"$dir/scan-aps" 2>&1 || echo "exit status $?" >>"$dir/scan-aps"
[ "$(wc -l <"$dir/scan")" -gt 1000 ] && cmp "$dir/scan" "$dir/scan-aps" && echo same >"$dir/cmp" || echo differs >"$dir/cmp"
expect 'ldb scans the same with either' '^same$' cmp
[ "$failed" = 0 ]
