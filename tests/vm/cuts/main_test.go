// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const data = `{"kernel":"6.1","filesystem":"ext4","scheduler":"none","seed":1,"cuts":14,"acknowledged":1057,"lost":0,"unclean":0}
{"kernel":"6.1","filesystem":"xfs","scheduler":"none","seed":1,"cuts":15,"acknowledged":999,"lost":1,"unclean":2}
{"kernel":"6.1","filesystem":"ext4","no_flushes":true,"seed":1,"cuts":14,"acknowledged":3715,"lost":13}
{"kernel":"7.2","filesystem":"ext4","scheduler":"none","seed":1,"cuts":14,"acknowledged":1000000,"lost":0,"unclean":0}
{"kernel":"6.1","filesystem":"ext4","scheduler":"none","databases":true,"seed":1,"cuts":2,"acknowledged":310,"lost":0,"unclean":0}
{"kernel":"6.1","filesystem":"ext4","no_flushes":true,"databases":true,"seed":1,"cuts":4,"acknowledged":92,"lost":4}
`

func TestTables(t *testing.T) {
	var all []found
	for in := json.NewDecoder(strings.NewReader(data)); in.More(); {
		var f found
		if err := in.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if err := cuts.Check(&f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	const want = `| file system | scheduler | cuts, 6.1 | acknowledged | losses | not clean | cuts, 7.2 | acknowledged | losses | not clean |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
| ext4 | none | 14 | 1,057 | 0 | 0 | 14 | 1,000,000 | 0 | 0 |
| xfs | none | 15 | 999 | 1 | 2 | - | - | - | - |
| all | | 29 | 2,056 | 1 | 2 | 14 | 1,000,000 | 0 | 0 |

PostgreSQL, and SQLite with its rollback journal and with its write-ahead log, together; acknowledged are commits, a loss is a database that lacks one or finds itself inconsistent:

| file system | scheduler | cuts, 6.1 | acknowledged | losses | not clean |
|---|---|--:|--:|--:|--:|
| ext4 | none | 2 | 310 | 0 | 0 |
| all | | 2 | 310 | 0 | 0 |

The check of the check, without flushes (the kernel told that the disk writes through):

| kernel | file system | writers | cuts | acknowledged | cuts that lost some |
|---|---|---|--:|--:|--:|
| 6.1 | ext4 | system calls | 14 | 3,715 | 13 |
| 6.1 | ext4 | SQLite | 4 | 92 | 4 |
`
	if got := tables(all); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, f := range []found{{Kernel: "6.1", Filesystem: "ext4", Cuts: 1}, {Kernel: "6.1", Filesystem: "ext4", Scheduler: "none"}} {
		if cuts.Check(&f) == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
