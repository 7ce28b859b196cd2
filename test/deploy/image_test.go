package deploy_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The image holds the programs alone, and .dockerignore lets in what they are built from.
func TestDockerfileBuildsWhatItNames(t *testing.T) {
	t.Parallel()
	const module = "github.com/pacer-notify/pacer/"
	file, ignored := readFile(t, "Dockerfile"), "\n"+readFile(t, ".dockerignore")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/dispatcher", "./cmd/enqueue")
	list.Dir = "../.."
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(packages)) {
		own, found := strings.CutPrefix(name, module)
		folder, _, _ := strings.Cut(own, "/")
		if found && !strings.Contains(ignored, "\n!"+folder+"\n") {
			t.Errorf(".dockerignore leaves out %s", own)
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
