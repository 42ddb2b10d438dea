// SPDX-License-Identifier: MIT

package block

import (
	"os"
	"strings"
)

// modelDiskTop is where modeldisk's disks are in configfs.
const modelDiskTop = "sys/kernel/config/modeldisk"

// ModelDiskPreset is the preset that a modeldisk has, or had before parameters
// were changed.
func (s System) ModelDiskPreset(name string) (string, error) {
	text, err := os.ReadFile(s.Path(modelDiskTop, name, "preset"))
	preset, _, _ := strings.Cut(string(text), " ") // "NAME (changed)"
	return strings.TrimSpace(preset), err
}
