package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDockerfileHasNoFault(t *testing.T) {
	t.Parallel()
	if faults := imageFaults(readFile(t, "Dockerfile")); len(faults) != 0 {
		t.Errorf("Dockerfile:\n%s", strings.Join(faults, "\n"))
	}
}

// imageFaults returns what is wrong with a Dockerfile, one sentence each.
func imageFaults(text string) []string {
	r := report{service: "image"}
	i := strings.LastIndex(text, "\nFROM ")
	build, final := text[:max(i, 0)], text[max(i, 0):]
	r.unless(strings.Contains(build, "CGO_ENABLED=0 "), "its programs need a C library")
	r.unless(strings.Contains(build, " -trimpath "), "its programs hold paths of the build")
	r.unless(strings.Contains(build, "FROM --platform=$BUILDPLATFORM ") &&
		strings.Contains(build, " GOOS=$TARGETOS GOARCH=$TARGETARCH "),
		"is compiled in an emulator, or for another architecture than its own")
	r.unless(strings.HasPrefix(final, "\nFROM scratch\n"), "holds more than the programs")
	r.unless(regexp.MustCompile(`(?m)^COPY --from=build /out/dispatcher /out/enqueue /$`).MatchString(final),
		"lacks a program, or has it elsewhere than at the top")
	r.unless(strings.Contains(final, "/etc/ssl/certs/ca-certificates.crt"), "trusts no certificate")
	r.unless(regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(final),
		"does not run as a numbered user other than root")
	r.unless(strings.Contains(final, `ENTRYPOINT ["/dispatcher"]`),
		"does not start the dispatcher, or not as the process that gets SIGTERM")
	return r.faults
}

func TestDockerfileFaultsAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, old, new, want string }{
		{name: "Cgo", old: "CGO_ENABLED=0", new: "CGO_ENABLED=1", want: "C library"},
		{name: "Paths", old: "-trimpath ", want: "paths of the build"},
		{name: "Emulator", old: "--platform=$BUILDPLATFORM ", want: "in an emulator"},
		{name: "OtherArchitecture", old: "GOARCH=$TARGETARCH ", want: "another architecture"},
		{name: "Debian", old: "FROM scratch", new: "FROM debian", want: "more than the programs"},
		{name: "OneProgram", old: "/out/dispatcher /out/enqueue /", new: "/out/dispatcher /", want: "lacks a program"},
		{name: "NoCertificates", old: "COPY --from=build /etc/ssl/certs", new: "# ", want: "trusts no certificate"},
		{name: "Root", old: "USER 65532:65532", new: "USER 0:0", want: "other than root"},
		{name: "NoUser", old: "USER 65532:65532\n", want: "other than root"},
		{name: "Shell", old: `ENTRYPOINT ["/dispatcher"]`, new: "ENTRYPOINT /dispatcher", want: "SIGTERM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := readFile(t, "Dockerfile")
			if !strings.Contains(text, tt.old) {
				t.Fatalf("Dockerfile does not contain %q any more", tt.old)
			}
			faults := strings.Join(imageFaults(strings.Replace(text, tt.old, tt.new, 1)), "\n")
			if !strings.Contains(faults, tt.want) {
				t.Errorf("faults:\n%s\nwant one with %q", faults, tt.want)
			}
		})
	}
}

// What the image is built from is listed, so that .git, .env and local files never get there.
func TestDockerignoreListsWhatGoesIn(t *testing.T) {
	t.Parallel()
	var in, out []string
	for line := range strings.Lines(readFile(t, ".dockerignore")) {
		switch line = strings.TrimSpace(line); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "!"):
			in = append(in, line[1:])
		default:
			out = append(out, line)
		}
	}
	if len(out) == 0 || out[0] != "*" {
		t.Errorf("first excluded: %q, want everything", out)
	}
	sources := []string{"cmd", "go.mod", "go.sum", "internal", "migrations"}
	slices.Sort(in)
	if !slices.Equal(in, sources) {
		t.Errorf("let in: %q, want the sources %q", in, sources)
	}
}
