// SPDX-License-Identifier: MIT

package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/weight"
	"isolio/internal/printable"
	"isolio/internal/tomlfile"
)

// ReadFile is a file that was read.
type ReadFile struct {
	// Name is as a reader of the machine finds it.
	Name string
	// Rules is how many rules it has.
	Rules int
}

type file struct {
	Metrics *string              `toml:"metrics"`
	NRI     *string              `toml:"nri"`
	Rule    []fileRule           `toml:"rule"`
	Class   map[string]fileClass `toml:"class"`
	Disk    []map[string]any     `toml:"disk"`
	Promise []filePromise        `toml:"promise"`
	SLA     *fileSLA             `toml:"sla"`
}

type fileRule struct {
	Name       *string `toml:"name"`
	Label      *string `toml:"label"`
	Annotation *string `toml:"annotation"`
	Class      *string `toml:"class"`
	Pod        *string `toml:"pod"`
	Unit       *string `toml:"unit"`
	Device     *string `toml:"device"`
	Weight     any     `toml:"weight"`
	Default    any     `toml:"default"`
	MaxWeight  *int64  `toml:"max_weight" was:"most"`
	Metrics    *bool   `toml:"metrics"`
}

// Dir is the directory of further files beside a file of rules.
func Dir(file string) string { return strings.TrimSuffix(file, ".toml") + ".d" }

// Load reads the rules of the machine below root, "" for /: name, or File where that is
// "", and then *.toml in the directory beside it, in the order of their names. All of
// them say together what one file would that had one after the other. A file that is not
// there says nothing.
func Load(root, name string) (Config, error) { return LoadWith(root, name, nil) }

// LoadWith is Load for a reader who knows the disks: room says, for a message about an
// amount, what a disk has for it.
func LoadWith(root, name string, room Room) (Config, error) {
	if name == "" {
		name = filepath.Join("/", root, File)
	}
	names, err := filepath.Glob(filepath.Join(literal.Replace(Dir(name)), "*.toml"))
	if err != nil {
		return Config{}, failure.Usagef("read rules: %w", err)
	}
	slices.Sort(names)
	r := newReader(room)
	for i, from := range append([]string{name}, names...) {
		if strings.HasPrefix(filepath.Base(from), ".") && i > 0 {
			continue // an editor's
		}
		text, err := os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) && i == 0 {
			continue
		}
		if err != nil {
			return Config{}, failure.Usagef("read rules: %w; allowed: a file", err)
		}
		if err := r.add(from, shown(root, from), i == 0, text); err != nil {
			return Config{}, err
		}
	}
	return r.config()
}

// literal keeps what a path has of a pattern from being one.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// shown is a path as it is called on the machine below root.
func shown(root, name string) string {
	if root == "" {
		return name
	}
	if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
		return "/" + rel
	}
	return name
}

// Parse reads rules from text; name stands for the file in messages. The error
// is one line: FILE:LINE: KEY: what is wrong; allowed: ...
func Parse(name string, text []byte) (Config, error) { return ParseWith(name, text, nil) }

// ParseWith is Parse with what disks have, as LoadWith.
func ParseWith(name string, text []byte, room Room) (Config, error) {
	r := newReader(room)
	if err := r.add(name, name, true, text); err != nil {
		return Config{}, err
	}
	return r.config()
}

// reader reads files, one after the other. What stands twice, in one file or in two, is
// a mistake.
type reader struct {
	files    []*checker
	room     Room
	settings SLA
	classes  map[string]Class
	// first is where what may be there once stands first.
	first map[any]spot
}

// spot is a line of a file, by the name that it has in messages.
type spot struct {
	file string
	line int
}

func newReader(room Room) *reader {
	return &reader{room: room, settings: DefaultSLA, classes: map[string]Class{}, first: map[any]spot{}}
}

// checker checks one file. It keeps the problem nearest to its top.
type checker struct {
	*reader
	name  string // in messages
	at    Place  // of what is in it: its file
	file  file
	lines map[string]int
	worst *tomlfile.Problem
}

func (r *reader) add(name, shown string, own bool, text []byte) error {
	c := &checker{reader: r, name: name, at: Place{File: shown, Own: own}}
	text = tomlfile.Bare(text)
	if err := tomlfile.Decode(name, text, &c.file); err != nil {
		return failure.Usagef("%s", printable.Text(err.Error())) // a key may be any text
	}
	c.lines = tomlfile.Lines(text)
	r.files = append(r.files, c)
	return nil
}

// config checks all files, and puts them together. Classes and settings are first: what
// follows them may stand before them.
func (r *reader) config() (Config, error) {
	var config Config
	for _, c := range r.files {
		c.readClasses()
		c.sla(c.file.SLA)
	}
	for _, c := range r.files {
		if address := c.address("metrics", c.file.Metrics); address != "" {
			config.Metrics = address
		}
		if socket := c.socket("nri", c.file.NRI); socket != "" {
			config.NRI = socket
		}
		config.Files = append(config.Files, ReadFile{Name: c.at.File, Rules: len(c.file.Rule)})
		config.Rules = append(config.Rules, c.rules()...)
		config.Disks = append(config.Disks, c.disks()...)
		config.Promises = append(config.Promises, c.promises(c.file.Promise)...)
	}
	for _, c := range r.files {
		if c.worst != nil {
			return Config{}, c.worst.In(c.name)
		}
	}
	config.SLA = r.settings
	if len(r.classes) > 0 {
		config.Classes = r.classes
	}
	return config, nil
}

// fail is about the member of a table, "" for the table itself, which is where
// a member that is missing would be.
func (c *checker) fail(table, member, what, allowed string) {
	key := strings.TrimPrefix(table+"."+member, ".")
	line, ok := c.lines[key]
	if !ok {
		line = c.lineOf(table)
	}
	name, _, _ := strings.Cut(table, "[")
	p := &tomlfile.Problem{Line: line, Key: printable.Text(strings.Trim(name+"."+member, ".")), What: what, Allowed: allowed}
	if c.worst == nil || line < c.worst.Line {
		c.worst = p
	}
}

// lineOf is where a table begins: at its head, or at its first key.
func (c *checker) lineOf(table string) int {
	if line, ok := c.lines[table]; ok {
		return line
	}
	least := 0
	for key, line := range c.lines {
		if strings.HasPrefix(key, table+".") && (least == 0 || line < least) {
			least = line
		}
	}
	return least
}

// once returns where something stood before, "" if it is there for the first time.
func (c *checker) once(what any, line int) (before string) {
	at, there := c.first[what]
	switch {
	case !there:
		c.first[what] = spot{c.name, line}
		return ""
	case at.file == c.name:
		return fmt.Sprintf("line %d", at.line)
	}
	return fmt.Sprintf("%s:%d", at.file, at.line)
}

// setting is a key of which there is one in all files.
type setting string

// alone refuses a setting that another file has as well. TOML itself refuses one that is
// twice in a file.
func (c *checker) alone(table, key string) {
	name := strings.TrimPrefix(table+"."+key, ".")
	if before := c.once(setting(name), c.lines[name]); before != "" {
		c.fail(table, key, "is in "+before+" as well", "it in one of the files")
	}
}

// tableOf is what the i-th rule is called among the lines.
func tableOf(i int) string { return fmt.Sprintf("rule[%d]", i) }

// isList refuses [kind] where [[kind]] is meant.
func (c *checker) isList(kind string, nr int) bool {
	if _, there := c.lines[kind+"[0]"]; nr > 0 && !there {
		c.fail(kind, "", "is one table", "[["+kind+"]], of which there may be more")
		return false
	}
	return true
}

// rules reads all of the file, and refuses one that does nothing because it is there twice.
func (c *checker) rules() []Rule {
	var rules []Rule
	for i := range c.file.Rule {
		rules = append(rules, c.rule(tableOf(i), &c.file.Rule[i]))
	}
	if !c.isList("rule", len(rules)) {
		return nil
	}
	for i, r := range rules {
		r.Weight, r.Default, r.MaxWeight, r.Metrics, r.From, r.At = 0, 0, 0, Unsaid, "", Place{}
		line := c.lines[tableOf(i)]
		if before := c.once(r, line); before != "" {
			c.fail(tableOf(i), "", "matches the same as that in "+before+", which wins", "one rule for each")
		}
		rules[i].At = c.at
		rules[i].At.Nr, rules[i].At.Line = i+1, line
	}
	return rules
}

func (c *checker) address(key string, v *string) string {
	if v == nil {
		return ""
	}
	c.alone("", key)
	if *v == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(*v)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		c.fail("", key, fmt.Sprintf("%q is not an address", *v), `HOST:PORT, such as "127.0.0.1:9188"`)
	}
	return *v
}

// longestSocket is the longest path of a socket that the kernel takes.
const longestSocket = 107

func (c *checker) socket(key string, v *string) string {
	if v == nil {
		return ""
	}
	c.alone("", key)
	if *v != NoNRI && (!path.IsAbs(*v) || len(*v) > longestSocket) {
		c.fail("", key, fmt.Sprintf("%q is not a socket", *v), `the path of one, such as "/run/nri/nri.sock", or "off"`)
	}
	return *v
}

// who are the keys that say who a rule is for.
const who = "name, label, annotation, class, pod, unit"

func (c *checker) rule(table string, f *fileRule) Rule {
	r := c.selector(table, f)
	var ofWeight, ofDefault string
	r.Weight, ofWeight = c.weight(table, "weight", f.Weight)
	var least weight.Value
	least, ofDefault = c.weight(table, "default", f.Default)
	r.Default, r.MaxWeight = int(least), c.number(table, "max_weight", f.MaxWeight)
	r.From = ofWeight + ofDefault // a rule has one of them
	if f.Metrics != nil {
		r.Metrics = Together
		if *f.Metrics {
			r.Metrics = Apart
		}
	}
	switch {
	case f.Weight == nil && f.Default == nil && f.MaxWeight == nil && f.Metrics == nil:
		c.fail(table, "weight", "is missing", c.weights("weight")+"; or default, max_weight, metrics")
	case f.Weight != nil && f.Default != nil:
		c.fail(table, "default", "cannot be combined with weight, which decides whatever is asked for", "one of them")
	case f.Weight != nil && f.MaxWeight != nil:
		c.fail(table, "max_weight", "cannot be combined with weight, which decides whatever is asked for", "one of them")
	case f.MaxWeight != nil && f.Device != nil:
		c.fail(table, "max_weight", "cannot be combined with device", "max_weight for all disks")
	case f.Metrics != nil && f.Device != nil:
		c.fail(table, "metrics", "cannot be combined with device", "metrics of all disks")
	case r.MaxWeight > 0 && r.Default > r.MaxWeight:
		c.fail(table, "default", fmt.Sprintf("%d is larger than max_weight, %d", r.Default, r.MaxWeight), "no more than max_weight")
	}
	if f.Device != nil {
		r.Device = c.device(table, *f.Device)
	}
	return r
}

// allowedDevice is what a rule may have for a disk.
const allowedDevice = `a name as in /sys/block, such as "nvme0n1"; or ` + block.Selected + `; or a path on the disk, such as "/var/lib/docker"`

// device is a disk: by its name, by what it is, or by what lies on it.
func (c *checker) device(table, text string) string {
	name := text
	if node := strings.TrimPrefix(text, "/dev/"); block.CheckSelector(node) {
		name = node
	}
	if !block.CheckSelector(name) && (!path.IsAbs(name) || path.Clean(name) != name) {
		c.fail(table, "device", fmt.Sprintf("%q is not a disk", text), allowedDevice)
	}
	return name
}

// selector is who a rule or a promise is for.
func (c *checker) selector(table string, f *fileRule) Rule {
	r := Rule{
		Name: c.pattern(table, "name", f.Name), Pod: c.pattern(table, "pod", f.Pod),
		Unit: c.pattern(table, "unit", f.Unit), Class: c.pattern(table, "class", f.Class),
		Label: c.pair(table, "label", f.Label), Annotation: c.pair(table, "annotation", f.Annotation),
	}
	ofContainer := r.Name + r.Label + r.Annotation + r.Class
	switch {
	case ofContainer+r.Pod+r.Unit == "":
		c.fail(table, "", "names no container, pod or unit", who)
	case r.Unit != "" && ofContainer+r.Pod != "":
		c.fail(table, "unit", "cannot be combined with keys of containers", "unit alone, or one or more of "+strings.TrimSuffix(who, ", unit"))
	}
	return r
}

const (
	numbers = "an integer 1..10000"
	sum     = `, or "sum"`
)

// weights says what a key takes for a weight.
func (c *checker) weights(key string) string {
	allowed := numbers
	if key == "weight" {
		allowed += sum
	}
	if len(c.classes) > 0 {
		allowed += ", or a class: " + c.classNames()
	}
	return allowed
}

// weight is an integer in the range of io.kyber.weight, its word where the key takes
// that, or what a class has; 0 for a key that is not there.
func (c *checker) weight(table, key string, v any) (n weight.Value, class string) {
	switch v := v.(type) {
	case nil:
	case int64:
		if v >= weight.Min && v <= weight.Max {
			return weight.Value(v), ""
		}
		c.fail(table, key, fmt.Sprintf("%d is out of range", v), c.weights(key))
	case string:
		if v == weight.Sum.String() && key == "weight" {
			return weight.Sum, ""
		}
		if of, there := c.classes[v]; there {
			return weight.Value(of.Weight), v
		}
		c.fail(table, key, fmt.Sprintf("%q is not a weight", v), c.weights(key))
	default:
		c.fail(table, key, "has the wrong type", c.weights(key))
	}
	return 0, ""
}

// number is a weight that is not the word.
func (c *checker) number(table, key string, v *int64) int {
	switch {
	case v == nil:
		return 0
	case *v < weight.Min || *v > weight.Max:
		c.fail(table, key, fmt.Sprintf("%d is out of range", *v), numbers)
	}
	return int(*v)
}

func (c *checker) pattern(table, key string, v *string) string {
	if v == nil {
		return ""
	}
	_, err := path.Match(*v, "")
	if *v == "" || err != nil {
		c.fail(table, key, fmt.Sprintf("%q is not a pattern", *v), "a name, in which * stands for any text, ? for a character, [a-z] for one of these")
	}
	return *v
}

// pair is KEY or KEY=PATTERN.
func (c *checker) pair(table, key string, v *string) string {
	if v == nil {
		return ""
	}
	name, pattern, _ := strings.Cut(*v, "=")
	if _, err := path.Match(pattern, ""); name == "" || err != nil {
		c.fail(table, key, fmt.Sprintf("%q is not a key and a pattern", *v), "KEY=PATTERN, or KEY for any value")
	}
	return *v
}
