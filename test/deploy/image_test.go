package deploy_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The image holds the programs alone, with their time zones, and .dockerignore lets in what they are built from.
func TestDockerfileBuildsWhatItNames(t *testing.T) {
	t.Parallel()
	const module = "github.com/pacer-notify/pacer/"
	file, ignored := readFile(t, "Dockerfile"), "\n"+readFile(t, ".dockerignore")
	for _, program := range []string{"./cmd/dispatcher", "./cmd/enqueue"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", program)
		list.Dir = "../.."
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := strings.Fields(string(out))
		if !slices.Contains(packages, "time/tzdata") {
			t.Errorf("%s has no time zones of its own, and the image has none", program)
		}
		for _, name := range packages {
			own, found := strings.CutPrefix(name, module)
			folder, _, _ := strings.Cut(own, "/")
			if found && !strings.Contains(ignored, "\n!"+folder+"\n") {
				t.Errorf(".dockerignore leaves out %s", own)
			}
		}
	}
	_, final, _ := strings.Cut(file, "\nFROM scratch\n")
	for _, line := range []string{
		"COPY --from=build /out/dispatcher /out/enqueue /", "/etc/ssl/certs/ca-certificates.crt", "USER 65532:65532",
		`ENTRYPOINT ["/dispatcher"]`,
	} {
		if !strings.Contains(final, line) {
			t.Errorf("the image lacks %s", line)
		}
	}
}
