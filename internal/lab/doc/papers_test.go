// SPDX-License-Identifier: MIT

package doc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
)

const testClaims = `
[[paper]]
name = "One"
claims = [
  { at = "figure 1", what = "total, bfq over none", value = 0.33, max = 0.9, within_pct = 10, run = ["one", "x", "bfq"], metric = "total_vs_none", decimals = 2, why = "It loses less." },
  { at = "figure 2", what = "bfq against none", value = -30, change = true, max = 1.0, within_pct = 10, run = ["one", "x", "bfq"], metric = "total_vs_none", why = "Near." },
  { at = "figure 3", what = "bfq's Jain index", says = "unfair", max = 0.9, run = ["one", "x", "bfq"], metric = "jain_weighted", why = "It is fair." },
  { at = "figure 4", what = "p99, ms", value = 1.2, unit = "ms", run = ["one", "x", "bfq"], metric = "lat_us.p99", container = "a", times = 0.001, why = "By a rule of 10 %." },
  { at = "figure 5", what = "not measured yet", value = 3, run = ["unmeasured", "x", "bfq"], metric = "total_vs_none", why = "Never shown." },
  { at = "section 6", what = "its machine", says = "a machine", why = "There is none." },
  { at = "algorithm 7", what = "the rule", says = "a rule", test = "kernel/x/x_kunit.c:rule", why = "As it says." },
  { at = "section 8", what = "lines", value = 1000, max = 1000, lines = ["kernel/x"], decimals = 0, why = "Few." },
]

[[paper]]
name = "Other"
claims = [
  { at = "figure 1", what = "of another page", says = "no", why = "It is another's." },
]
`

const testClaimsTable = "| where | what | paper | here | ratio | verdict | why |\n" +
	"|---|---|--:|--:|--:|---|---|\n" +
	"| figure 1 | total, bfq over none | 0.33 | 0.75 | 2.27 | differs | It loses less. |\n" +
	"| figure 2 | bfq against none | -30 % | -25 % | 1.07 | reproduced | Near. |\n" +
	"| figure 3 | bfq's Jain index | unfair | 1.00 | - | contradicted | It is fair. |\n" +
	"| figure 4 | p99, ms | 1.2 ms | 1.23 ms | 1.03 | reproduced | By a rule of 10 %. |\n" +
	"| figure 5 | not measured yet | 3 | - | - | not run | `make results ONLY=unmeasured` measures it |\n" +
	"| section 6 | its machine | a machine | - | - | not run | There is none. |\n" +
	"| algorithm 7 | the rule | a rule | `rule` | - | reproduced | As it says. |\n" +
	"| section 8 | lines | 1000 | 0 | 0.00 | reproduced | Few. |\n" +
	"\nOf 8 rows 4 are reproduced, 1 differ, 1 are contradicted, 2 are not run.\n" +
	"Measured: `one` at version v1.\n"

// withClaims is a filler whose tree has claims.
func withClaims(t *testing.T, claims string) *Filler {
	t.Helper()
	f := newFiller(t)
	put(t, filepath.Join(string(f.Tree), papersFile), claims)
	put(t, filepath.Join(string(f.Tree), "kernel/x/x_kunit.c"), "static void rule(struct kunit *test)\n{\n}\n")
	return f
}

const claimsPage = "# Title\n\n" + begin + ` paper = "One" ` + ends + "\n"

func TestPapers(t *testing.T) {
	filled, err := withClaims(t, testClaims).Fill("a.md", []byte(claimsPage+after+"\n"), nil)
	noError(t, err)
	if got, want := string(filled.Text), claimsPage+testClaimsTable+after+"\n"; got != want {
		t.Errorf("made\n%s\nwant\n%s", got, want)
	}
}

func TestAllPapers(t *testing.T) {
	page := "# Title\n\n" + begin + ` paper = "all" ` + ends + "\n"
	filled, err := withClaims(t, testClaims).Fill("a.md", []byte(page+after+"\n"), nil)
	noError(t, err)
	want := page + "| document | rows | reproduced | differs | contradicted | not run |\n|---|--:|--:|--:|--:|--:|\n" +
		"| One | 8 | 4 | 1 | 1 | 2 |\n| Other | 1 | 0 | 0 | 0 | 1 |\n" + after + "\n"
	if string(filled.Text) != want {
		t.Errorf("made\n%s\nwant\n%s", filled.Text, want)
	}
}

// A contender of an older result may be another scheduler by the same name: that is not measured.
func TestPapersOfAnotherScheduler(t *testing.T) {
	f := withClaims(t, testClaims)
	text := testExperiment + "[[contender]]\nname = \"mine\"\nscheduler = \"bfq\"\ntunables = { slice_idle = 0 }\n"
	put(t, filepath.Join(string(f.Tree), "experiments/one.toml"), text)
	put(t, filepath.Join(string(f.Tree), papersFile), strings.ReplaceAll(testClaims, `"bfq"]`, `"mine"]`))
	doc, err := f.Tree.Read("one")
	noError(t, err)
	for i := range doc.Runs {
		if doc.Runs[i].Scheduler == "bfq" {
			doc.Runs[i].Scheduler = "mine" // without a variant: a scheduler of that name
		}
	}
	doc.Verdicts = nil
	noError(t, f.Tree.Write(doc))
	filled, err := f.Fill("a.md", []byte(claimsPage+after+"\n"), nil)
	noError(t, err)
	if want := "| figure 1 | total, bfq over none | 0.33 | - | - | not run | `make results ONLY=one` measures it |"; !strings.Contains(string(filled.Text), want) {
		t.Errorf("made\n%s\nwant in it\n%s", filled.Text, want)
	}
}

func TestPapersRefused(t *testing.T) {
	change := func(old, now string) string { return strings.Replace(testClaims, old, now, 1) }
	for _, c := range []struct{ name, claims, want string }{
		{"no figure to compare with", change("value = 0.33, max = 0.9, within_pct = 10", `says = "less"`), "has nothing that a figure is compared with"},
		{"no value", change(`says = "unfair", `, ""), "has neither value nor says"},
		{"no reason", change(`why = "Near."`, `why = ""`), "has no why"},
		{"no place", change(`at = "figure 2", `, ""), "has no paper, no at or no what"},
		{"no run", change(`run = ["one", "x", "bfq"], `, ""), "has a metric without a run of three, or the reverse"},
		{"a run of two", change(`"one", "x", "bfq"`, `"one", "x"`), "has a metric without a run of three, or the reverse"},
		{"a run without a metric", change(`metric = "total_vs_none", `, ""), "has a metric without a run of three, or the reverse"},
		{"two ways", change(`test = "kernel/x/x_kunit.c:rule"`, `test = "kernel/x/x_kunit.c:rule", lines = ["kernel/x"]`), "has several of metric, test and lines"},
		{"a test that is not there", change("x_kunit.c:rule", "x_kunit.c:ruler"), "there is no test kernel/x/x_kunit.c:ruler"},
		{"a metric that is none", change("total_vs_none", "total_vs_nobody"), `unknown metric "total_vs_nobody"`},
		{"a case that is none", change(`"one", "x"`, `"one", "y"`), `one has no case "y"`},
		{"no such paper", strings.ReplaceAll(testClaims, `"One"`, `"Two"`), `docs/papers.toml has no claim of "One"`},
		{"a key", change("value = 0.33", "valu = 0.33"), "valu: unknown key"},
	} {
		_, err := withClaims(t, c.claims).Fill("a.md", []byte(claimsPage+after+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Each paper has its table on one page of results, and nothing of it is not run but what says why, or has no
// result yet. That figures can be computed is TestDocumentsOfThisTree.
func TestPapersOfThisTree(t *testing.T) {
	f := &Filler{Tree: archive.Tree("../../..")}
	pages, err := filepath.Glob("../../../docs/results/*.md")
	noError(t, err)
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		noError(t, err)
		all.Write(text)
	}
	papers := map[string]int{}
	for _, c := range f.papers() {
		papers[c.Paper]++
		if problem := c.problem(); problem != "" {
			t.Errorf("%s, %s: %q %s", c.Paper, c.At, c.What, problem)
		}
	}
	if len(papers) != 5 {
		t.Errorf("claims of %v: there are five documents", papers)
	}
	for paper, n := range papers {
		if markers := strings.Count(all.String(), begin+` paper = "`+paper+`" `+ends); markers != 1 {
			t.Errorf("%s has %d claims and %d tables on pages of results, want one", paper, n, markers)
		}
	}
}
