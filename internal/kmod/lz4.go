// SPDX-License-Identifier: MIT

package kmod

import (
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
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
		block := make([]byte, min(lz4BlockMax, total-len(out)))
		n, err := lz4.UncompressBlock(data[:size], block)
		if err != nil || n == 0 {
			return nil, errLZ4
		}
		out = append(out, block[:n]...)
		data = data[size:]
	}
	if len(out) != total {
		return nil, errLZ4
	}
	return out, nil
}
