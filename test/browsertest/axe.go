package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
)

// axe is where `make install-servers` puts the rules for accessible pages, below the top of the module.
var axe = filepath.Join("internal", "app", "testdata", "axe", "node_modules", "axe-core", "axe.min.js")

// Accessible holds the page to the rules of axe. when says in which state it is.
func (b *Tab) Accessible(when string) {
	b.Helper()
	top, err := top()
	if err != nil {
		b.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(top, axe))
	if err != nil {
		b.Fatalf("%v: run make install-servers", err)
	}
	Eval[bool](b, string(source)+"; true")
	found := Eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => v.impact + ' ' + v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary)))`)
	for _, violation := range found {
		b.Errorf("%s, axe finds: %s", when, violation)
	}
}

// top is the folder of the module that the test is in.
func top() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no folder above the test has a go.mod")
		}
		dir = filepath.Dir(dir)
	}
}
