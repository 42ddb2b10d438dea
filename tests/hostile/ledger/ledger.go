// SPDX-License-Identifier: MIT

// Package ledger knows what every block of a disk may hold. A worker notes each
// write before it submits it and after it succeeded, in memory that outlives the
// worker. So after an error or a kill it is known which writes are in doubt, and
// all other data must be right to the last byte.
package ledger

import (
	"encoding/binary"
	"fmt"
)

// Sizes of a block, which is what is written at once at least, and of a sector,
// which a disk writes whole or not at all.
const (
	BlockBytes  = 4096
	SectorBytes = 512
)

// Kind is what a write leaves in a block.
type Kind int

// A pattern is known to the last byte. Zeroes come from write zeroes. After a
// discard a block may read as anything.
const (
	Pattern Kind = iota
	Zeroes
	Anything
)

// Words of a block in the shared memory. A generation is the number of a write
// of that block. The block holds one of the generations from oldest to newest.
const (
	oldest    = iota // the last one that is known to have succeeded
	newest           // the last one that was submitted
	zeroed           // bit g%64: generation g wrote zeroes
	discarded        // bit g%64: generation g was a discard
	blockWords
)

// wild marks a block that holds anything, in its word oldest: too many writes in
// a row are in doubt.
const wild = 1 << 63

// mostInDoubt is below 64, so that no two generations in doubt share a bit.
const mostInDoubt = 60

const magic = 0x6873_7469_6c65_0001

// Ledger is the ledger of one region of a disk. One goroutine at a time uses it.
type Ledger struct {
	words []uint64
	id    uint64
	first uint64 // number of the region's first block on the disk
}

// Words is how many words of memory a region of so many blocks takes.
func Words(blocks int) int { return blocks * blockWords }

// New makes a ledger in the given memory, which is zero for a region whose
// content is not known. The id distinguishes regions and disks.
func New(words []uint64, id, first uint64) *Ledger {
	return &Ledger{words: words, id: id, first: first}
}

// Forget makes the content of all blocks unknown.
func (l *Ledger) Forget() {
	clear(l.words)
}

func (l *Ledger) block(n int) []uint64 {
	return l.words[n*blockWords : (n+1)*blockWords : (n+1)*blockWords]
}

// Begin notes a write of block n that is about to be submitted, and returns its
// generation.
func (l *Ledger) Begin(n int, kind Kind) uint64 {
	b := l.block(n)
	if b[oldest]&wild == 0 && b[newest]-b[oldest] >= mostInDoubt {
		b[oldest] |= wild
	}
	gen := b[newest] + 1
	bit := uint64(1) << (gen % 64)
	b[zeroed] &^= bit
	b[discarded] &^= bit
	switch kind {
	case Zeroes:
		b[zeroed] |= bit
	case Anything:
		b[discarded] |= bit
	case Pattern:
	}
	b[newest] = gen // last: the notes above are there when a kill comes between
	return gen
}

// Done notes that the newest write of block n succeeded, with all before it done.
func (l *Ledger) Done(n int) {
	b := l.block(n)
	b[oldest] = b[newest]
}

// Fill writes into data the pattern of block n in the given generation.
func (l *Ledger) Fill(data []byte, n int, gen uint64) {
	for sector := range BlockBytes / SectorBytes {
		l.fillSector(data[sector*SectorBytes:(sector+1)*SectorBytes], n, gen, sector)
	}
}

func (l *Ledger) fillSector(data []byte, n int, gen uint64, sector int) {
	block := l.first + uint64(n)
	header := [5]uint64{magic, l.id, block, gen, uint64(sector)}
	state := uint64(magic)
	for i, word := range header {
		binary.LittleEndian.PutUint64(data[8*i:], word)
		state = (state ^ word) * 0x9e37_79b9_7f4a_7c15
	}
	for at := 8 * len(header); at < SectorBytes; at += 8 {
		state = next(state)
		binary.LittleEndian.PutUint64(data[at:], state)
	}
}

// next is a step of xorshift64.
func next(x uint64) uint64 {
	x |= 1
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// Check compares what was read from block n with what it may hold. No write of
// the block may be in flight.
func (l *Ledger) Check(data []byte, n int) error {
	b := l.block(n)
	first, last := b[oldest], b[newest]
	if first&wild != 0 || holds(b[discarded], first, last) || first == 0 {
		return nil
	}
	for sector := range BlockBytes / SectorBytes {
		if err := l.checkSector(data[sector*SectorBytes:(sector+1)*SectorBytes], n, sector); err != nil {
			return fmt.Errorf("block %d (byte %d of the disk), sector %d: %w; generations %d to %d are right",
				n, (l.first+uint64(n))*BlockBytes, sector, err, first, last)
		}
	}
	return nil
}

// holds tells whether a bit is set for a generation from first to last.
func holds(bits, first, last uint64) bool {
	for gen := first; gen <= last; gen++ {
		if bits>>(gen%64)&1 != 0 {
			return true
		}
	}
	return false
}

func (l *Ledger) checkSector(data []byte, n, sector int) error {
	b := l.block(n)
	var words [SectorBytes / 8]uint64
	isZero := true
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(data[8*i:])
		isZero = isZero && words[i] == 0
	}
	if isZero {
		if holds(b[zeroed], b[oldest], b[newest]) {
			return nil
		}
		return fmt.Errorf("zeroes where data was written")
	}
	gen := words[3]
	if want := l.first + uint64(n); words[0] != magic || words[1] != l.id || words[2] != want || words[4] != uint64(sector) {
		return fmt.Errorf("another place's data or none of ours: %#x, region %#x (want %#x), block %d (want %d), generation %d, sector %d",
			words[0], words[1], l.id, words[2], want, gen, words[4])
	}
	if gen < b[oldest] || gen > b[newest] {
		return fmt.Errorf("generation %d", gen)
	}
	if bit := gen % 64; (b[zeroed]|b[discarded])>>bit&1 != 0 {
		return fmt.Errorf("generation %d, which wrote no pattern", gen)
	}
	var want [SectorBytes]byte
	l.fillSector(want[:], n, gen, sector)
	if string(want[:]) != string(data) {
		return fmt.Errorf("generation %d, but not all of it", gen)
	}
	return nil
}
