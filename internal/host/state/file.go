// SPDX-License-Identifier: MIT

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/renameio/v2"

	"isolio/internal/plan"
)

// maxBytes bounds what is read of a file: far more than what thousands of pods take.
const maxBytes = 16 << 20

// ErrDamaged says that a file holds what no version of isolio writes.
var ErrDamaged = errors.New("is damaged")

// errSchema says that a file has another schema than the one that is known: a higher one is of a newer isolio.
func errSchema(schema, known int) error {
	if schema > known {
		return fmt.Errorf("schema %d is not known; known: %d; update isolio", schema, known)
	}
	return fmt.Errorf("%w: schema %d", ErrDamaged, schema)
}

// EnabledFile is what `isolio enable` notes of a disk before it changes it, with the steps of its plan.
func EnabledFile(root, disk string) string {
	return pathOf(root, "run/isolio/enabled/"+disk+".json")
}

// BootTried is there once this boot may give disks their schedulers, and BootUnfinished from then until the boot has
// finished: isolio-boot.service writes both. The second is on a disk, and a boot that hangs leaves it for the next.
const (
	BootTried      = "run/isolio/boot"
	BootUnfinished = "var/lib/isolio/boot"
)

// BootFailed tells whether the boot before this one did not finish, so that this one gives disks no schedulers.
func BootFailed(root string) bool {
	_, tried := os.Stat(pathOf(root, BootTried))
	_, unfinished := os.Stat(pathOf(root, BootUnfinished))
	return unfinished == nil && errors.Is(tried, fs.ErrNotExist)
}

// pathOf is a file below root, "" for /.
func pathOf(root, file string) string { return filepath.Join("/", root, file) }

// sealed is how a file with a checksum begins. A file without one is of an older version, and an older
// version takes the checksum for a key that it does not know.
var sealed = regexp.MustCompile(`^\{"sum":"([0-9a-f]{8})",`)

// seal puts a checksum into the JSON of an object, so that a flipped bit that leaves JSON is noticed.
func seal(text []byte) []byte {
	rest := text[1:] // after the brace
	return fmt.Appendf(nil, `{"sum":"%08x",%s`, sumOf(rest), rest)
}

func sumOf(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// unseal compares the checksum of a text, where it has one.
func unseal(text []byte) error {
	found := sealed.FindSubmatch(text)
	if found != nil && string(found[1]) != fmt.Sprintf("%08x", sumOf(text[len(found[0]):])) {
		return fmt.Errorf("%w: its checksum is another one", ErrDamaged)
	}
	return nil
}

// unmarshal is json.Unmarshal of a text that is what was written.
func unmarshal(text []byte, to any) error {
	err := unseal(text)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, to); err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// read returns what a file holds; there is false if it does not exist.
func read(name string) (text []byte, there bool, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s: %w: it is larger than %d bytes", name, ErrDamaged, maxBytes)
	}
	return text, true, err
}

// write replaces a file at once. mode holds whatever the umask: `isolio explain` of any user reads
// what all may read.
func write(name string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(name, text, mode, renameio.WithStaticPermissions(mode), renameio.WithTempDir(filepath.Dir(name)))
}

// writeJSON replaces a file by the JSON of what.
func writeJSON(name string, what any, mode fs.FileMode) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return write(name, seal(append(text, '\n')), mode)
}

// remove removes a file, which need not exist.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SetAside keeps a damaged file under another name as well, which it returns. The file itself stays
// until another one replaces it.
func SetAside(root, file string) (kept string, err error) { return plan.KeepAside(pathOf(root, file)) }
