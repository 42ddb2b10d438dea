// SPDX-License-Identifier: MIT

// Command sbom prints what Go programs are made of, as an SPDX document: Go itself and each
// module, with its version and checksum. The document has the date of SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"isolio/internal/cli"
)

type document struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	SPDXID        string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	SPDXID    string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	License   string     `json:"licenseConcluded"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Of   string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, programs []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "isolio " + cli.Version,
		Creation: creation{time.Unix(seconds, 0).UTC().Format(time.RFC3339), []string{"Tool: isolio packaging/sbom"}},
	}
	modules := map[string]pkg{}
	for _, file := range programs {
		if err := d.add(file, modules); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		d.Packages = append(d.Packages, modules[id])
	}
	// The same programs have the same name.
	sums := sha256.New()
	for _, p := range d.Packages {
		fmt.Fprintln(sums, p)
	}
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/isolio-%x", sums.Sum(nil)[:16])
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(d)
}

// add adds a program, with the modules that it was built of.
func (d *document) add(file string, modules map[string]pkg) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	program := pkg{
		SPDXID: identifier("program", filepath.Base(file)), Name: filepath.Base(file), Version: cli.Version, Location: "NOASSERTION", License: "MIT",
		Checksums: []checksum{{"SHA256", fmt.Sprintf("%x", sha256.Sum256(text))}},
	}
	d.Packages = append(d.Packages, program)
	d.Relationships = append(d.Relationships, relationship{d.SPDXID, "DESCRIBES", program.SPDXID})
	std := pkg{
		SPDXID: "SPDXRef-go", Name: "Go", Version: info.GoVersion, Location: "https://go.dev/dl/", License: "BSD-3-Clause",
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}},
	}
	for _, p := range append([]pkg{std}, moduleList(info.Deps)...) {
		modules[p.SPDXID] = p
		d.Relationships = append(d.Relationships, relationship{program.SPDXID, "CONTAINS", p.SPDXID})
	}
	return nil
}

func moduleList(all []*debug.Module) []pkg {
	var list []pkg
	for _, m := range all {
		if m.Replace != nil {
			m = m.Replace
		}
		p := pkg{
			SPDXID: identifier("module", m.Path), Name: m.Path, Version: m.Version, License: "NOASSERTION",
			Location: "NOASSERTION",
			Refs:     []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
		}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
			p.Checksums = []checksum{{"SHA256", fmt.Sprintf("%x", sum)}} // of the module's files, as go.sum has it
		}
		list = append(list, p)
	}
	return list
}

// identifier has letters, digits, points and hyphens only.
func identifier(kind, name string) string {
	return "SPDXRef-" + kind + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
}
