// SPDX-License-Identifier: MIT

package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/table"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// keys are what the screen listens to; the table has those that move in it.
type keys struct {
	order, back, reverse, filter, tree, busy, pause, step, help, quit key.Binding
}

func newKeys() keys {
	bind := func(name, does string, all ...string) key.Binding {
		return key.NewBinding(key.WithKeys(all...), key.WithHelp(name, does))
	}
	return keys{
		order:   bind("s/S", "sort", "s", "right"),
		back:    bind("S", "", "S", "left"),
		reverse: bind("r", "reverse", "r"),
		filter:  bind("/", "filter", "/"),
		tree:    bind("t", "tree", "t"),
		busy:    bind("i", "hide idle", "i"),
		pause:   bind("space", "pause", "space", "p"),
		step:    bind("[ ] { }", "step 1, 60", "[", "]", "{", "}"),
		help:    bind("?", "help", "?"),
		quit:    bind("q", "quit", "q", "ctrl+c"),
	}
}

// steps are how many samples on, or back, a key goes from the one that is shown.
var steps = map[string]int{"[": -1, "]": 1, "{": -60, "}": 60}

func (k keys) ShortHelp() []key.Binding {
	return []key.Binding{k.order, k.filter, k.tree, k.busy, k.pause, k.step, k.help, k.quit}
}

func (k keys) FullHelp() [][]key.Binding {
	move := moves()
	return [][]key.Binding{
		{k.order, k.reverse, k.filter, k.tree}, {k.busy, k.pause, k.step, k.help, k.quit},
		{move.LineUp, move.LineDown, move.PageUp, move.PageDown}, {move.GotoTop, move.GotoBottom},
	}
}

// screen is the live table.
type screen struct {
	source   Source
	replay   *Replay // the source, if it is a recording
	interval time.Duration

	keys   keys
	help   help.Model
	filter textinput.Model
	table  table.Model
	width  int
	height int

	view   View
	paused bool
	latest usage.Sample // what is shown: the last one before a pause
	err    error        // why there was no newer one
}

// sampled is a new sample, or why there is none.
type sampled struct {
	sample usage.Sample
	err    error
	asked  bool // by a key, which shows it during a pause too
}

// Show shows the live table until the user quits or ctx ends.
func Show(ctx context.Context, from Source, interval time.Duration, view View, in io.Reader, out io.Writer) error {
	program := tea.NewProgram(newScreen(from, interval, view), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := program.Run()
	if ctx.Err() != nil {
		return nil // a signal ends it as q does
	}
	if err != nil {
		return fmt.Errorf("live table: %w", err)
	}
	return nil
}

func newScreen(from Source, interval time.Duration, view View) *screen {
	filter := textinput.New()
	filter.Prompt = "/"
	filter.Placeholder = "part of a name, a cgroup or a disk"
	filter.SetValue(view.Filter)
	styles := table.DefaultStyles()
	styles.Header = lipgloss.NewStyle().Bold(true).Reverse(true).PaddingRight(columnGap)
	styles.Cell = lipgloss.NewStyle().PaddingRight(columnGap)
	styles.Selected = lipgloss.NewStyle().Bold(true)
	foot := help.New()
	// Not help's own shades of grey: of the terminal's colors only it is known that
	// text can be read in them.
	foot.Styles.ShortKey, foot.Styles.ShortDesc = lipgloss.NewStyle().Bold(true), lipgloss.NewStyle()
	foot.Styles.FullKey, foot.Styles.FullDesc, foot.Styles.FullSeparator = foot.Styles.ShortKey, foot.Styles.ShortDesc, foot.Styles.ShortDesc
	foot.Styles.ShortSeparator, foot.Styles.Ellipsis = lipgloss.NewStyle(), lipgloss.NewStyle()
	bound := newKeys()
	replay, isReplay := from.(*Replay)
	bound.step.SetEnabled(isReplay)
	return &screen{
		source: from, replay: replay, interval: interval, view: view,
		keys: bound, help: foot, filter: filter,
		table: table.New(table.WithFocused(true), table.WithStyles(styles), table.WithKeyMap(moves())),
	}
}

// moves are the table's own keys, without letters that mean something else here.
func moves() table.KeyMap {
	k := table.DefaultKeyMap()
	k.LineUp.SetKeys("up", "k")
	k.LineDown.SetKeys("down", "j")
	k.PageUp.SetKeys("pgup")
	k.PageUp.SetHelp("pgup", "page up")
	k.PageDown.SetHelp("pgdn", "page down")
	k.PageDown.SetKeys("pgdown")
	k.HalfPageUp.SetKeys("ctrl+u")
	k.HalfPageDown.SetKeys("ctrl+d")
	k.GotoTop.SetKeys("home", "g")
	k.GotoBottom.SetKeys("end", "G")
	return k
}

// Init takes the first sample. Rates take a second one, which comes soon.
func (s *screen) Init() tea.Cmd {
	return tea.Sequence(s.take, tea.Tick(firstInterval, func(time.Time) tea.Msg { return tick{} }))
}

// firstInterval is how long a new screen has no rates.
const firstInterval = 200 * time.Millisecond

type tick struct{}

func (s *screen) take() tea.Msg {
	sample, err := s.source.Sample()
	return sampled{sample: sample, err: err}
}

// Update is called with what happened: a key, a sample, a new size.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.resize(msg.Width, msg.Height)
		return s, nil
	case tick:
		if s.replay != nil && (s.paused || s.replay.Left() == 0) {
			return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return tick{} })
		}
		return s, tea.Batch(s.take, tea.Tick(s.interval, func(time.Time) tea.Msg { return tick{} }))
	case sampled:
		s.err = msg.err
		if msg.err == nil && (!s.paused || msg.asked) {
			s.latest = msg.sample
			s.fill()
		}
		return s, nil
	case tea.KeyPressMsg:
		if s.filter.Focused() {
			return s, s.typed(msg)
		}
		return s, s.press(msg)
	}
	return s, nil
}

// typed is a key while the filter is written.
func (s *screen) typed(msg tea.KeyPressMsg) tea.Cmd {
	var cmd tea.Cmd
	switch msg.String() {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		s.filter.Blur()
	case "esc":
		s.filter.SetValue("")
		s.filter.Blur()
	default:
		s.filter, cmd = s.filter.Update(msg)
	}
	s.view.Filter = s.filter.Value()
	s.fill()
	return cmd
}

func (s *screen) press(msg tea.KeyPressMsg) tea.Cmd {
	nr := len(columns())
	var cmd tea.Cmd
	switch {
	case key.Matches(msg, s.keys.quit):
		return tea.Quit
	case key.Matches(msg, s.keys.order):
		s.view.Order = (s.view.Order + 1) % nr
	case key.Matches(msg, s.keys.back):
		s.view.Order = (s.view.Order + nr - 1) % nr
	case key.Matches(msg, s.keys.reverse):
		s.view.Reverse = !s.view.Reverse
	case key.Matches(msg, s.keys.tree):
		s.view.Tree = !s.view.Tree
	case key.Matches(msg, s.keys.busy):
		s.view.Busy = !s.view.Busy
	case key.Matches(msg, s.keys.pause):
		s.paused = !s.paused
	case key.Matches(msg, s.keys.step):
		s.paused = true
		s.replay.Skip(steps[msg.String()] - 1) // the next is the one after that which is shown
		sample, err := s.replay.Sample()
		return func() tea.Msg { return sampled{sample, err, true} }
	case key.Matches(msg, s.keys.help):
		s.help.ShowAll = !s.help.ShowAll
		s.resize(s.width, s.height)
	case key.Matches(msg, s.keys.filter):
		return s.filter.Focus()
	case msg.String() == "esc":
		s.filter.SetValue("")
		s.view.Filter = ""
	default:
		s.table, cmd = s.table.Update(msg)
		return cmd
	}
	s.fill()
	return nil
}

// columnGap is the room between two columns.
const columnGap = 2

func (s *screen) resize(width, height int) {
	s.width, s.height = width, height
	s.help.SetWidth(width)
	s.filter.SetWidth(max(10, width-20))
	s.table.SetWidth(width)
	// The first line is the table's no more than those of the keys.
	s.table.SetHeight(max(2, height-1-strings.Count(s.foot(), "\n")-1))
	s.fill()
}

// fill gives the table the rows of the view, in columns as wide as they need.
func (s *screen) fill() {
	rows := s.view.Apply(s.latest.Rows)
	all := columns()
	titles := make([]string, len(all))
	for i, c := range all {
		titles[i] = c.title
		if i == s.view.Order {
			titles[i] += map[bool]string{false: "▼", true: "▲"}[s.view.Reverse]
		}
	}
	lines := make([][]string, len(rows))
	for n := range rows {
		lines[n] = cells(all, &rows[n])
	}
	l := fit(all, titles, lines, s.view.Order, s.width)
	var heads []table.Column
	for _, i := range l.shown {
		heads = append(heads, table.Column{Title: align(titles[i], l.widths[i], all[i].isLeft), Width: l.widths[i]})
	}
	if l.spark > 0 {
		heads = append(heads, table.Column{Title: "LAST", Width: l.spark})
	}
	filled := make([]table.Row, len(rows))
	for n, line := range lines {
		line[0] = shorten(line[0], l.widths[0])
		for _, i := range l.shown {
			filled[n] = append(filled[n], align(line[i], l.widths[i], all[i].isLeft))
		}
		if history := rows[n].History; l.spark > 0 {
			filled[n] = append(filled[n], spark(history[max(0, len(history)-l.spark):]))
		}
	}
	s.replace(heads, filled)
}

// replace gives the table other columns and rows, and keeps the place that was
// scrolled to. In between no row may have more cells than there are columns.
func (s *screen) replace(heads []table.Column, rows []table.Row) {
	if len(heads) < len(s.table.Columns()) {
		s.table.SetRows(rows)
		s.table.SetColumns(heads)
	} else {
		s.table.SetColumns(heads)
		s.table.SetRows(rows)
	}
	s.table.SetCursor(max(0, min(s.table.Cursor(), len(rows)-1)))
}

// shorten keeps the end of a name, which tells more of a path than its begin, and
// of a path whole parts where it can. What shows a tree stays as long as there is
// room.
func shorten(name string, width int) string {
	if utf8.RuneCountInString(name) <= width {
		return name
	}
	bare := strings.TrimLeft(name, " ")
	indent := min(len(name)-len(bare), max(0, width-minTail))
	return name[:indent] + shortenBare(bare, width-indent)
}

// minTail is what is kept of a name below others.
const minTail = 8

func shortenBare(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	end := string(runes[len(runes)-width+1:])
	if at := strings.IndexByte(end, '/'); at >= 0 {
		end = end[at:]
	}
	return "…" + end
}

// View draws the screen.
func (s *screen) View() tea.View {
	v := tea.NewView(s.status() + "\n" + s.table.View() + "\n" + s.foot())
	v.AltScreen = true
	v.WindowTitle = "isolio top"
	return v
}

// status is the first line: the time, the sums, what is not as usual.
func (s *screen) status() string {
	var bytesPS, iops float64
	for i := range s.latest.Rows {
		bytesPS += s.latest.Rows[i].BytesPS()
		iops += s.latest.Rows[i].IOPS()
	}
	when, every := s.latest.At.Format(time.TimeOnly), s.interval
	if s.replay != nil {
		when, every = "replay of "+s.latest.At.Format(time.DateTime), s.latest.Over.Round(time.Millisecond)
	}
	line := fmt.Sprintf("isolio top  %s  every %s  %s MiB/s  %s IOPS", when, every, figure(bytesPS/(1<<20)), figure(iops))
	if s.paused {
		line += "  PAUSED"
	}
	if s.view.Filter != "" {
		line += "  filter: " + s.view.Filter
	}
	if s.err != nil {
		line += "  " + printable.Text(s.err.Error())
	}
	return lipgloss.NewStyle().MaxWidth(max(1, s.width)).Render(line)
}

func (s *screen) foot() string {
	if s.filter.Focused() {
		return s.filter.View()
	}
	return s.help.View(s.keys)
}
