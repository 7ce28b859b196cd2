package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// programs are what a release holds, in the order of its archives.
var programs = []string{"dispatcher", "enqueue"}

// documents lie beside the programs in every archive.
var documents = []string{"CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"}

// versionPackage is where the linker writes version and commit.
const versionPackage = "github.com/pacer-notify/pacer/internal/version"

// target is a system that programs are built for.
type target struct{ system, architecture string }

// build is one release while it is made.
type build struct {
	source  string // the repository's top folder
	assets  string // folder of what is published
	version string
	commit  string
	time    time.Time // of the commit
	targets []target
	// compression is a level of gzip.
	compression int
}

// name is that of everything made for the target, without what says its kind.
func (b *build) name(t target) string {
	return fmt.Sprintf("pacer_%s_%s_%s", b.version, t.system, t.architecture)
}

// make makes an archive and its SBOM for each target, and the checksums of all of them.
func (b *build) make(ctx context.Context, log io.Writer) error {
	for _, t := range b.targets {
		fmt.Fprintln(log, b.name(t))
		if err := b.makeFor(ctx, t); err != nil {
			return fmt.Errorf("%s/%s: %w", t.system, t.architecture, err)
		}
	}
	return writeChecksums(b.assets)
}

// makeFor makes what is published for one target.
func (b *build) makeFor(ctx context.Context, t target) error {
	bin, err := os.MkdirTemp("", "pacer-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	if err := b.compile(ctx, t, bin); err != nil {
		return err
	}
	var files []file
	for _, program := range programs {
		files = append(files, file{path: filepath.Join(bin, program), mode: 0o755})
	}
	for _, document := range documents {
		files = append(files, file{path: filepath.Join(b.source, document), mode: 0o644})
	}
	err = writeArchive(filepath.Join(b.assets, b.name(t)+".tar.gz"), b.name(t), files, b.time, b.compression)
	if err != nil {
		return err
	}
	return b.writeSBOM(t, bin)
}

// compile builds the programs as the Dockerfile does: they run without a C library and hold no path of this machine.
func (b *build) compile(ctx context.Context, t target, bin string) error {
	flags := fmt.Sprintf("-s -w -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s", versionPackage, b.version, b.commit)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", bin + string(filepath.Separator)}
	for _, program := range programs {
		args = append(args, "./cmd/"+program)
	}
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the version was checked, the rest is the program's
	command.Dir = b.source
	// The settings of whoever makes the release say nothing: GOFLAGS could add a tag that switches protections off.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+t.system, "GOARCH="+t.architecture)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
