// SPDX-License-Identifier: MIT

// Package must ends a test at an error that is not what it tests.
package must

import "testing"

// OK ends the test with err, if it is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
