// SPDX-License-Identifier: MIT

package experiment

import (
	"testing"

	"isolio/internal/kernels"
)

// Results keep no kernel that is the default one, so it is no variable.
func TestDefaultKernel(t *testing.T) {
	if DefaultKernel != kernels.Default() {
		t.Errorf("experiments take %s by default, scripts %s, the first row of kernels.txt", DefaultKernel, kernels.Default())
	}
}
