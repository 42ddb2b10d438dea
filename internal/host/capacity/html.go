// SPDX-License-Identifier: MIT

package capacity

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"isolio/internal/host/page"
)

var htmlPage = page.New(`
{{- define "title"}}{{show .Name}}: sustained rates{{end}}
{{- define "body"}}<h1>{{show .Name}}: sustained rates</h1>
<p class="muted">{{show .Identity}}; measured {{.At}} under {{show .Scheduler}}, kernel {{show .Kernel}}, in {{.Took}}</p>
{{range .Sections}}<h2>{{.Head}}</h2>
<p>{{.Says}}</p>
<ul class="legend">{{range .Legend}}<li><svg width="12" height="12"><rect class="f{{.Colour}}" width="12" height="12"/></svg>{{show .Name}}: {{.Says}}</li>{{end}}</ul>
<div class="charts">{{range .Charts}}<figure>{{.}}</figure>{{end}}</div>
{{end}}<h2>All points</h2>
<div class="wide"><table>
<thead><tr><th>load</th><th class="n">depth</th><th class="n">IOPS</th><th class="n">MiB/s</th><th class="n">mean, us</th><th class="n">p99, us</th><th class="n">p99.9, us</th><th class="n">runs apart</th><th></th></tr></thead>
<tbody>
{{range .Rows}}<tr>{{range $i, $cell := .}}<td{{if and $i (lt $i 8)}} class="n"{{end}}>{{show $cell}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{if .Notes}}<h2>Notes</h2>
<ul>{{range .Notes}}<li>{{show .}}</li>
{{end}}</ul>{{end}}{{end}}`)

// htmlProfile is what the page says.
type htmlProfile struct {
	Name, Identity, At, Scheduler, Kernel, Took string
	Sections                                    []htmlSection
	Rows                                        [][]string
	Notes                                       []string
}

// htmlSection is the charts of loads that have one unit.
type htmlSection struct {
	Head, Says string
	Legend     []htmlLegend
	Charts     []template.HTML
}

type htmlLegend struct {
	Colour     int
	Name, Says string
}

// manyBytes is from which size on a load's rate is told in bytes.
const manyBytes = 64 << 10

// WriteHTML prints the profile as one page with its curves, that needs no other file.
func (p *Profile) WriteHTML(w io.Writer) error {
	doc := htmlProfile{
		Name: p.title(), Identity: p.Disk.Identity, At: p.MeasuredAt.Format("2006-01-02 15:04 MST"), Scheduler: p.Scheduler, Kernel: p.Kernel,
		Took: fmt.Sprintf("%.0f s", p.TookS), Rows: p.rows(), Notes: p.notes(),
	}
	for _, s := range []struct {
		head, unit string
		large      bool
		scale      float64
	}{{"Small requests", "requests a second", false, 1}, {"Large requests", "MiB a second", true, 1 << 20}} {
		if section, some := p.section(s.head, s.unit, s.large, s.scale); some {
			doc.Sections = append(doc.Sections, section)
		}
	}
	return page.Write(w, htmlPage, doc)
}

// section draws the loads of one unit: rate by depth, and p99 by rate, in which the knee shows as
// a corner.
func (p *Profile) section(head, unit string, large bool, scale float64) (s htmlSection, some bool) {
	s = htmlSection{Head: head, Says: "A ring is the knee of a load: with more requests outstanding the rate is hardly higher, and each takes longer."}
	rate := page.Chart{Label: head + ": rate by requests outstanding", X: "requests outstanding", Y: unit, FromZero: true}
	wait := page.Chart{Label: head + ": p99 by rate", X: unit, Y: "p99, us"}
	for i := range p.Loads {
		l := &p.Loads[i]
		if (l.BlockBytes >= manyBytes) != large {
			continue
		}
		byDepth, byRate := page.Curve{Name: l.Name}, page.Curve{Name: l.Name}
		for _, at := range l.Points {
			v := at.IOPS
			if large {
				v = at.BytesPS / scale
			}
			knee := at.Depth == l.KneeDepth
			byDepth.Points = append(byDepth.Points, page.Point{X: float64(at.Depth), Y: v, Mark: knee})
			byRate.Points = append(byRate.Points, page.Point{X: v, Y: at.slower().P99, Mark: knee})
		}
		full := l.Full()
		says := fmt.Sprintf("%.0f IOPS, %.1f MiB/s at depth %d", full.IOPS, full.BytesPS/(1<<20), full.Depth)
		if l.KneeDepth == 0 {
			says += ", and still growing"
		}
		s.Legend = append(s.Legend, htmlLegend{len(rate.Curves) % page.Colours, l.Name, says})
		rate.Curves, wait.Curves = append(rate.Curves, byDepth), append(wait.Curves, byRate)
	}
	for _, c := range []page.Chart{rate, wait} {
		if svg := c.SVG(); svg != "" {
			s.Charts = append(s.Charts, svg)
		}
	}
	return s, len(s.Legend) > 0
}

// title is the disk's name and model.
func (p *Profile) title() string {
	if p.Disk.Model == "" {
		return p.Disk.Name
	}
	return fmt.Sprintf("%s (%s)", p.Disk.Name, strings.TrimSpace(p.Disk.Model))
}
