// SPDX-License-Identifier: MIT

// Command provenance prints what the files of a release were made of, and by what: an in-toto
// statement with SLSA's predicate, version 1. It has no times, so two builds of one commit that
// have the same files have the same statement. It is not signed: the one who releases signs
// SHA256SUMS, which has its checksum.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"isolio/internal/cli"
)

// digest has a hash by its algorithm's name.
type digest map[string]string

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string `json:"name,omitempty"`
	URI    string `json:"uri,omitempty"`
	Digest digest `json:"digest,omitempty"`
}

type predicate struct {
	Definition definition `json:"buildDefinition"`
	Details    details    `json:"runDetails"`
}

type definition struct {
	Type         string            `json:"buildType"`
	External     map[string]string `json:"externalParameters"`
	Dependencies []resource        `json:"resolvedDependencies"`
}

type details struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: provenance DIR")
		os.Exit(2)
	}
	if err := write(os.Stdout, ".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

// write prints the statement of the files in dir, built from the checkout in top.
func write(w io.Writer, top, dir string) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		file, err := hashed(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, file)
	}
	commit, err := exec.Command("git", "-C", top, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse HEAD in %s: %w", top, err)
	}
	s.Predicate.Definition = definition{
		Type:     "urn:isolio:scripts/release:v1",
		External: map[string]string{"version": cli.Version, "step": "package"},
		Dependencies: []resource{
			{URI: "git+urn:isolio", Digest: digest{"gitCommit": strings.TrimSpace(string(commit))}},
			{URI: "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")},
		},
	}
	// Each names the modules of others with their checksums.
	for _, name := range []string{"go.sum", "deploy/node/go.sum", "deploy/image/go.sum"} {
		file, err := hashed(filepath.Join(top, name))
		if err != nil {
			return err
		}
		file.Name = name
		s.Predicate.Definition.Dependencies = append(s.Predicate.Definition.Dependencies, file)
	}
	s.Predicate.Details.Builder.ID = "urn:isolio:make-release"
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(s)
}

func hashed(path string) (resource, error) {
	f, err := os.Open(path)
	if err != nil {
		return resource{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return resource{}, fmt.Errorf("read %s: %w", path, err)
	}
	return resource{Name: filepath.Base(path), Digest: digest{"sha256": fmt.Sprintf("%x", sum.Sum(nil))}}, nil
}
