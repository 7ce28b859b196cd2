package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/pacer-notify/pacer/test/processtest"
)

// fixed is a release of this checkout whose version, commit and time are made up, for this machine's system alone: the
// others are built by make snapshot.
func fixed(t *testing.T) *build {
	t.Helper()
	return &build{
		source: filepath.Join("..", ".."), assets: t.TempDir(),
		version: "v1.2.3-rc.1", commit: "0123456789abcdef0123456789abcdef01234567",
		time:    time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		targets: []target{{system: runtime.GOOS, architecture: runtime.GOARCH}},
		// Compressing takes minutes under the race detector.
		compression: gzip.NoCompression,
	}
}

func TestReleaseIsWholeAndReproducible(t *testing.T) {
	t.Parallel()
	b := fixed(t)
	if err := b.make(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	name := b.name(b.targets[0])
	made := readFolder(t, b.assets)
	want := []string{checksums, name + ".cdx.json", name + ".tar.gz"}
	if got := slices.Sorted(maps.Keys(made)); !slices.Equal(got, want) {
		t.Fatalf("made %q, want %q", got, want)
	}
	checkSums(t, b.assets)
	checkPrograms(t, b, unpack(t, made[name+".tar.gz"]))
	checkSBOM(t, b, made[name+".cdx.json"])

	again := fixed(t)
	if err := again.make(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	for name, content := range readFolder(t, again.assets) {
		if !bytes.Equal(made[name], content) {
			t.Errorf("%s: the second time other bytes came out", name)
		}
	}
}

// readFolder returns the content of each file by its name.
func readFolder(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// checkSums has the tool that users have look at the checksums.
func checkSums(t *testing.T, folder string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", checksums)
	command.Dir = folder
	out, err := command.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != 2 {
		t.Errorf("sha256sum: %v, want two files that are OK:\n%s", err, out)
	}
}

// unpack returns the files of an archive by their path in it, and checks what tar would make of each.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		program := slices.Contains(programs, filepath.Base(header.Name))
		if executable := header.Mode&0o111 != 0; executable != program {
			t.Errorf("%s has the mode %o", header.Name, header.Mode)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d:%d (%q): that is whoever packed it", header.Name, header.Uid, header.Gid,
				header.Uname)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPrograms runs the packed programs.
func checkPrograms(t *testing.T, b *build, files map[string][]byte) {
	t.Helper()
	folder := b.name(b.targets[0]) + "/"
	for _, document := range documents {
		if len(files[folder+document]) == 0 {
			t.Errorf("the archive lacks %s", document)
		}
	}
	if want := len(programs) + len(documents); len(files) != want {
		t.Errorf("the archive holds %q, want %d files", slices.Sorted(maps.Keys(files)), want)
	}
	want := fmt.Sprintf("%s (commit %s, %s)", b.version, b.commit, runtime.Version())
	for program, argument := range map[string]string{"dispatcher": "version", "enqueue": "--version"} {
		path := filepath.Join(t.TempDir(), program)
		if err := processtest.WriteProgram(path, string(files[folder+program])); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), path, argument).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s %s prints %q (%v), want %q in it", program, argument, out, err, want)
		}
	}
}

// checkSBOM looks for what is in the programs, and for what is in their tests alone.
func checkSBOM(t *testing.T, b *build, text []byte) {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cyclonedx.SpecVersion1_5 || bom.Metadata.Component.Version != b.version {
		t.Errorf("SBOM of version %v for %+v", bom.SpecVersion, bom.Metadata.Component)
	}
	listed := map[string]string{}
	for _, component := range *bom.Components {
		listed[component.Name] = component.Version
	}
	if go1 := strings.TrimPrefix(runtime.Version(), "go"); listed["stdlib"] != go1 {
		t.Errorf("SBOM has Go's packages in version %q, want %q", listed["stdlib"], go1)
	}
	for _, line := range required(t, b.source) {
		module, version, _ := strings.Cut(line, " ")
		switch module {
		case "github.com/redis/go-redis/v9", "github.com/hibiken/asynq", "github.com/jackc/pgx/v5":
			if listed[module] != version {
				t.Errorf("SBOM has %s in version %q, want %q", module, listed[module], version)
			}
		case "pgregory.net/rapid", "go.uber.org/goleak":
			if version, there := listed[module]; there {
				t.Errorf("SBOM has %s %s, which only tests use", module, version)
			}
		}
	}
	if refs := *(*bom.Dependencies)[0].Dependencies; len(refs) != len(listed) {
		t.Errorf("pacer depends on %d modules of %d listed", len(refs), len(listed))
	}
}

// required are the modules of go.mod, as "PATH VERSION".
func required(t *testing.T, source string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			modules = append(modules, fields[0]+" "+fields[1])
		}
	}
	return modules
}
