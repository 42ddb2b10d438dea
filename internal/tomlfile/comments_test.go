// SPDX-License-Identifier: MIT

package tomlfile

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func TestWithoutComments(t *testing.T) {
	const text = `# above

a = 1 # behind
	# indented
b = "# no comment"   
[t] # of a table
c = [ # first
  1, # second
  # third
  # fourth

  "#", # fifth
]
d = { x = '#' } # inline
script = '''
#!/bin/sh

echo "#"   
''' # after
[[list]]
# last`
	const want = `a = 1
b = "# no comment"
[t]
c = [
  1,
  "#",
]
d = { x = '#' }
script = '''
#!/bin/sh

echo "#"   
'''
[[list]]
`
	got, err := WithoutComments([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := WithoutComments(got); err != nil || string(again) != want {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	if _, err = WithoutComments([]byte("a = \n")); err == nil {
		t.Error("no error for what is not TOML")
	}
}

// What the experiments say is the same without comments.
func TestWithoutCommentsOfExperiments(t *testing.T) {
	files, err := filepath.Glob("../../experiments/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no experiments: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		less, err := WithoutComments(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var before, after map[string]any
		if err = toml.Unmarshal(text, &before); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err = toml.Unmarshal(less, &after); err != nil {
			t.Fatalf("%s without comments: %v", file, err)
		}
		if len(less) >= len(text) || !reflect.DeepEqual(before, after) {
			t.Errorf("%s: %d bytes of %d are left, the same otherwise: %t", file, len(less), len(text), reflect.DeepEqual(before, after))
		}
	}
}
