// SPDX-License-Identifier: MIT

package kmod

import (
	"encoding/binary"
	"errors"
)

// lz4LegacyMagic starts the "legacy" LZ4 frame, which is what the kernel's
// build uses for its image.
var lz4LegacyMagic = []byte{0x02, 0x21, 0x4c, 0x18}

// lz4BlockMax is the most bytes that one block of a legacy frame holds when
// unpacked.
const lz4BlockMax = 8 << 20

var errLZ4 = errors.New("damaged lz4 data")

// unpackLZ4Legacy unpacks a legacy frame: the magic, then blocks, each
// behind its packed size (u32). The kernel's build appends the unpacked size
// of the whole (u32), which tells that the last block was reached.
func unpackLZ4Legacy(data []byte) ([]byte, error) {
	if len(data) < len(lz4LegacyMagic)+4 {
		return nil, errLZ4
	}
	total := int(binary.LittleEndian.Uint32(data[len(data)-4:]))
	if total > unpackedMax {
		return nil, errUnpacked()
	}
	data = data[len(lz4LegacyMagic) : len(data)-4]
	var out []byte
	for len(out) < total {
		if len(data) < 4 {
			return nil, errLZ4
		}
		size := int(binary.LittleEndian.Uint32(data))
		data = data[4:]
		if size == 0 || size > len(data) {
			return nil, errLZ4
		}
		var err error
		if out, err = appendLZ4Block(out, data[:size]); err != nil {
			return nil, err
		}
		data = data[size:]
	}
	if len(out) != total {
		return nil, errLZ4
	}
	return out, nil
}

// appendLZ4Block unpacks one block behind out. A block is a row of sequences:
// a token (high half: number of literals, low half: length of the match less
// 4; 15 means that more length bytes follow), the literals, then the match's
// distance backwards (u16). The last sequence has no match.
func appendLZ4Block(out, block []byte) ([]byte, error) {
	base := len(out)
	for len(block) > 0 {
		token := block[0]
		literals, rest, ok := lz4Length(int(token>>4), block[1:])
		if !ok || literals > len(rest) {
			return nil, errLZ4
		}
		out = append(out, rest[:literals]...)
		block = rest[literals:]
		if len(block) == 0 {
			break
		}
		if len(block) < 2 {
			return nil, errLZ4
		}
		distance := int(binary.LittleEndian.Uint16(block))
		match, rest, ok := lz4Length(int(token&15), block[2:])
		if !ok || distance == 0 || distance > len(out)-base {
			return nil, errLZ4
		}
		block = rest
		match += 4
		if len(out)-base+match > lz4BlockMax {
			return nil, errLZ4
		}
		// A match may overlap what it produces: copy what exists, again and again.
		for match > 0 {
			from := len(out) - distance
			n := min(match, distance)
			out = append(out, out[from:from+n]...)
			match -= n
		}
	}
	if len(out)-base > lz4BlockMax {
		return nil, errLZ4
	}
	return out, nil
}

// lz4Length reads the length bytes that follow a token half of 15.
func lz4Length(n int, data []byte) (int, []byte, bool) {
	if n < 15 {
		return n, data, true
	}
	for i, b := range data {
		n += int(b)
		if b != 255 {
			return n, data[i+1:], true
		}
	}
	return 0, nil, false
}
