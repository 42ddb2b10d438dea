// SPDX-License-Identifier: MIT

package weight

import (
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
)

// FuzzParse reads a weight file, and what its values print is read as the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"default 100\n8:0 300\n259:1 1\n", "100\n", "default x", "8:0 default", "a b c", "default sum\n8:0 sum\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzlimit.Run(t, uint64(16<<20+1000*len(text)), func() {
			v, err := Parse(text)
			if err != nil {
				return
			}
			again, err := Parse(strings.ReplaceAll(v.String(), ", ", "\n"))
			if err != nil || again.String() != v.String() {
				t.Errorf("%q became %q, error %v", v, again, err)
			}
		})
	})
}

// FuzzDecode tells what was asked for. From files that hold what the kernel
// takes, it is a weight that the kernel takes.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(200), uint16(910), uint16(0), uint16(0), uint16(200), uint8(7))
	f.Add(uint16(109), uint16(200), uint16(100), uint16(10000), uint16(0), uint8(3))
	f.Fuzz(func(t *testing.T, bfq, io, innerBFQ, innerIO, oci uint16, flags uint8) {
		e := Evidence{
			BFQ: int(bfq % 1001), IO: int(io % 10001), InnerBFQ: int(innerBFQ % 1001), InnerIO: int(innerIO % 10001),
			Container: flags&1 != 0, ByCrun: flags&2 != 0, SpecRead: flags&4 != 0, OCI: int(oci % 1001),
		}
		if asked := e.Decode(); asked.Weight < 1 || asked.Weight > Kyber.Max() {
			t.Errorf("%+v gives %+v", e, asked)
		}
	})
}
