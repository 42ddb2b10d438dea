// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// dataOut is where the lab takes data from.
var dataOut = os.NewFile(3, "data")

// send writes an object to the host, as a line of data for the tables of pages: internal/lab/doc.
func send(t *testing.T, table string, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	must(t, err)
	_, err = fmt.Fprintf(dataOut, "{\"table\":%q,%s\n", table, text[1:])
	must(t, err)
}
