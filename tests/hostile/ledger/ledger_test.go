// SPDX-License-Identifier: MIT

package ledger

import (
	"strings"
	"testing"
)

const region = 0xabc

func newLedger(blocks int) *Ledger { return New(make([]uint64, Words(blocks)), region, 100) }

// written is block n's content after a successful write.
func written(l *Ledger, n int) []byte {
	data := make([]byte, BlockBytes)
	l.Fill(data, n, l.Begin(n, Pattern))
	l.Done(n)
	return data
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v; want %q", what, err, want)
	}
}

func TestCheck(t *testing.T) {
	l := newLedger(2)
	zeroes := make([]byte, BlockBytes)
	expect(t, "unknown content", l.Check(zeroes, 0), "")
	old := written(l, 0)
	now := written(l, 0)
	expect(t, "what was written", l.Check(now, 0), "")
	expect(t, "an old write", l.Check(old, 0), "sector 0: generation 1; generations 2 to 2")
	expect(t, "zeroes", l.Check(zeroes, 0), "zeroes where data was written")
	written(l, 1)
	expect(t, "another block's", l.Check(now, 1), "another place's data")
	torn := append(append([]byte{}, now[:SectorBytes]...), old[SectorBytes:]...)
	expect(t, "a torn write", l.Check(torn, 0), "sector 1: generation 1")
	flipped := append([]byte{}, now...)
	flipped[BlockBytes-1] ^= 1
	expect(t, "a flipped bit", l.Check(flipped, 0), "sector 7: generation 2, but not all of it")
}

// Of a write that failed each sector may be there or not.
func TestInDoubt(t *testing.T) {
	l := newLedger(1)
	old := written(l, 0)
	now := make([]byte, BlockBytes)
	l.Fill(now, 0, l.Begin(0, Pattern))
	torn := append(append([]byte{}, now[:SectorBytes]...), old[SectorBytes:]...)
	for what, data := range map[string][]byte{"before": old, "after": now, "torn": torn} {
		expect(t, what, l.Check(data, 0), "")
	}
	expect(t, "zeroes", l.Check(make([]byte, BlockBytes), 0), "zeroes")
	again := written(l, 0)
	expect(t, "the next write", l.Check(again, 0), "")
	expect(t, "the one in doubt, after the next", l.Check(now, 0), "generation 2")
}

func TestZeroesAndDiscards(t *testing.T) {
	l := newLedger(1)
	old := written(l, 0)
	zeroes := make([]byte, BlockBytes)
	l.Begin(0, Zeroes)
	expect(t, "zeroes in doubt", l.Check(zeroes, 0), "")
	expect(t, "data in doubt", l.Check(old, 0), "")
	l.Done(0)
	expect(t, "zeroes", l.Check(zeroes, 0), "")
	expect(t, "data under zeroes", l.Check(old, 0), "generation 1")
	l.Begin(0, Anything)
	expect(t, "anything in doubt", l.Check(old, 0), "")
	l.Done(0)
	expect(t, "anything", l.Check(old, 0), "")
	now := written(l, 0)
	expect(t, "what was written", l.Check(now, 0), "")
	expect(t, "data under a discard", l.Check(old, 0), "generation 1")
}

// Many writes in a row in doubt make the block unknown, until one succeeds.
func TestWild(t *testing.T) {
	l := newLedger(1)
	old := written(l, 0)
	for range 200 {
		l.Begin(0, Pattern)
	}
	expect(t, "after 200 failures", l.Check(old, 0), "")
	now := written(l, 0)
	expect(t, "after a success", l.Check(now, 0), "")
	expect(t, "the old one", l.Check(old, 0), "generation 1")
	l.Forget()
	expect(t, "after all is forgotten", l.Check(old, 0), "")
}
