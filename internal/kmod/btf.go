// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"isolio/internal/failure"
)

// RunningBTF is where a running kernel shows its own BTF.
const RunningBTF = "/sys/kernel/btf/vmlinux"

// btfMagic starts raw BTF on a little-endian machine.
const btfMagic = "\x9f\xeb"

// LoadSpec reads the BTF in file, which may be raw BTF (like
// /sys/kernel/btf/vmlinux), an ELF file with a .BTF section (the vmlinux in a
// headers package) or a kernel image (vmlinuz).
func LoadSpec(file string) (*btf.Spec, error) {
	raw, err := ReadBTF(file)
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: its BTF cannot be read: %w", file, err)
	}
	return spec, nil
}

// ReadBTF returns the raw BTF in file; see LoadSpec for the kinds of file.
func ReadBTF(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && strings.HasSuffix(file, RunningBTF) {
		return nil, failure.Unsupportedf("%s is missing: this kernel was built without CONFIG_DEBUG_INFO_BTF, which isolio's modules need", file)
	}
	if err != nil {
		return nil, failure.Usagef("%w", err)
	}
	raw, err := btfIn(data)
	if err != nil {
		return nil, failure.Usagef("%s: %w", file, err)
	}
	return raw, nil
}

func btfIn(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte(btfMagic)):
		return data, nil
	case bytes.HasPrefix(data, []byte(elf.ELFMAG)):
		return btfInELF(data)
	case isKernelImage(data):
		vmlinux, err := unpackKernelImage(data)
		if err != nil {
			return nil, err
		}
		return btfInELF(vmlinux)
	}
	return nil, errors.New("neither raw BTF, nor an ELF file, nor an x86 kernel image")
}

func btfInELF(data []byte) ([]byte, error) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("damaged ELF file: %w", err)
	}
	section := file.Section(".BTF")
	if section == nil {
		return nil, errors.New("the ELF file has no .BTF section: the kernel was built without CONFIG_DEBUG_INFO_BTF")
	}
	return sectionData(section, len(data))
}

// sectionData is what a section of a file of so many bytes holds. A packed one
// may unpack to any size, and neither BTF nor a layout record is packed.
func sectionData(section *elf.Section, fileBytes int) ([]byte, error) {
	if section.Flags&elf.SHF_COMPRESSED != 0 || section.Size > uint64(fileBytes) {
		return nil, fmt.Errorf("damaged ELF file: section %s is packed, or larger than the file", section.Name)
	}
	return section.Data()
}

// readUnpacked reads what a packer gives, up to unpackedMax.
func readUnpacked(in io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(in, int64(unpackedMax)+1))
	if err == nil && len(out) > unpackedMax {
		return nil, errUnpacked()
	}
	return out, err
}

func errUnpacked() error {
	return fmt.Errorf("it unpacks to more than %d MiB", unpackedMax>>20)
}

// Offsets in the header of an x86 kernel image, boot protocol 2.08 and newer
// (Documentation/arch/x86/boot.rst).
const (
	imageSetupSectors  = 0x1f1 // u8: 512-byte sectors of setup code; 0 means 4
	imageMagic         = 0x202 // "HdrS"
	imagePayloadOffset = 0x248 // u32: from the start of the protected-mode code
	imagePayloadLength = 0x24c // u32: bytes
	imageHeaderEnd     = 0x250
)

func isKernelImage(data []byte) bool {
	return len(data) >= imageHeaderEnd && string(data[imageMagic:imageMagic+4]) == "HdrS"
}

// unpackKernelImage returns the vmlinux that a kernel image carries.
func unpackKernelImage(data []byte) ([]byte, error) {
	sectors := int64(data[imageSetupSectors])
	if sectors == 0 {
		sectors = 4
	}
	start := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(data[imagePayloadOffset:]))
	end := start + int64(binary.LittleEndian.Uint32(data[imagePayloadLength:]))
	if start >= end || end > int64(len(data)) {
		return nil, errors.New("damaged kernel image: its payload lies outside of the file")
	}
	payload := data[start:end]
	var vmlinux []byte
	var err error
	switch {
	case bytes.HasPrefix(payload, gzipMagic):
		vmlinux, err = unpackGzip(payload)
	case bytes.HasPrefix(payload, xzMagic):
		vmlinux, err = unpackXZ(payload)
	case bytes.HasPrefix(payload, lz4LegacyMagic):
		vmlinux, err = unpackLZ4Legacy(payload)
	case bytes.HasPrefix(payload, zstdMagic):
		vmlinux, err = unpackZstd(payload)
	case bytes.HasPrefix(payload, bzip2Magic):
		vmlinux, err = io.ReadAll(bzip2.NewReader(withoutSize(payload)))
	default:
		return nil, fmt.Errorf("the kernel image is compressed with something other than gzip, xz, lz4, zstd or bzip2 (it starts with % x): use the vmlinux of its headers package, or %s on a machine that runs it",
			payload[:min(4, len(payload))], RunningBTF)
	}
	if err != nil {
		return nil, fmt.Errorf("damaged kernel image: %w", err)
	}
	return vmlinux, nil
}

var (
	gzipMagic  = []byte{0x1f, 0x8b}
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzip2Magic = []byte("BZh")
)

// unpackedMax is how much a kernel or a module may unpack to, in bytes.
var unpackedMax = 512 << 20

// imageSizeBytes is what the kernel's build appends to a packed payload: its
// unpacked size.
const imageSizeBytes = 4

// withoutSize reads a payload up to its unpacked size, which would look like
// the damaged begin of another stream.
func withoutSize(payload []byte) io.Reader {
	return bytes.NewReader(payload[:max(0, len(payload)-imageSizeBytes)])
}

// zstdWindow is the window that the kernel's build packs with, in bytes (zstd
// --ultra -22).
const zstdWindow = 128 << 20

func unpackZstd(payload []byte) ([]byte, error) {
	unzip, err := zstd.NewReader(withoutSize(payload), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return nil, err
	}
	defer unzip.Close()
	return io.ReadAll(unzip)
}

func unpackGzip(payload []byte) ([]byte, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	unzip.Multistream(false) // the size follows the stream
	return readUnpacked(unzip)
}

func unpackXZ(payload []byte) ([]byte, error) {
	unzip, err := xz.NewReader(withoutSize(payload), xz.DefaultDictMax)
	if err != nil {
		return nil, err
	}
	return readUnpacked(unzip)
}
