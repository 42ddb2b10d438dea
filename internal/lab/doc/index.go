// SPDX-License-Identifier: MIT

package doc

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/run"
)

// indexVMs is how many VMs at a time the indexes' minutes are of.
const indexVMs = 2

// Indexes are the README.md of each folder of experiments, by their paths in the tree: a
// table of the questions there, and about how long each takes.
func Indexes(t archive.Tree) (map[string][]byte, error) {
	all, err := t.Experiments()
	if err != nil {
		return nil, err
	}
	folders := map[string][]*experiment.Experiment{}
	for _, x := range all {
		dir, err := filepath.Rel(string(t), filepath.Dir(x.File))
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		folders[dir] = append(folders[dir], x)
	}
	files := map[string][]byte{}
	for dir, inside := range folders {
		rows := [][]string{{"experiment", "question", "contenders", "cases", "minutes"}}
		for _, x := range inside {
			minutes := max(1, run.Options{Jobs: indexVMs}.Estimate(x).Round(time.Minute)/time.Minute)
			rows = append(rows, []string{
				fmt.Sprintf("[%s](%s)", x.Name, filepath.Base(x.File)), x.Question,
				strings.Join(x.Schedulers, ", "), fmt.Sprint(len(x.Cases)), fmt.Sprint(int64(minutes)),
			})
		}
		text := "<!-- written by `make doc` -->\n# Experiments: " + filepath.Base(dir) + "\n\n" +
			"`isolio lab NAME` runs one; minutes are on two CPUs. [docs/experiments.md](../../docs/experiments.md) explains the files.\n\n" +
			markdown(rows)
		files[filepath.Join(dir, "README.md")] = []byte(text)
	}
	return files, nil
}
