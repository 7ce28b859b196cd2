package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
)

// asking is a command line with one command that asks the ops pages.
type asking struct {
	Ask struct {
		settings.File
		settings.OpsClient
	} `cmd:""`
	Pause struct {
		Kind string `arg:"" enum:"channel,category" help:"What to pause."`
	} `cmd:""`
}

func parseAsking(t *testing.T, environ []string, args ...string) (*settings.Ops, error) {
	t.Helper()
	p := &asking{}
	parser, err := settings.NewParser(p, "program", "Tests settings.", settings.Environ(environ))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Parse(parser, args); err != nil {
		return nil, err
	}
	return p.Ask.Resolve()
}

func TestWhereTheOpsPagesAre(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                               "http://127.0.0.1:8081",
		"0.0.0.0:81":                     "http://127.0.0.1:81",
		":81":                            "http://127.0.0.1:81",
		"[::]:81":                        "http://127.0.0.1:81",
		"[::1]:81":                       "http://[::1]:81",
		"ops:81":                         "http://ops:81",
		"http://ops":                     "http://ops",
		"https://ops.example.com/pacer/": "https://ops.example.com/pacer",
	} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			args := []string{"ask"}
			if given != "" {
				args = append(args, "--ops-listen="+given)
			}
			got, err := parseAsking(t, nil, args...)
			if err != nil || got.URL != want {
				t.Errorf("got %v, %v, want %s", got, err, want)
			}
		})
	}
}

func TestWhereTheOpsPagesAreNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none := filepath.Join(dir, "none.pem")
	if err := os.WriteFile(none, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ arg, want string }{
		"no port":   {"--ops-listen=ops", "must be HOST:PORT, or a URL"},
		"scheme":    {"--ops-listen=ftp://ops", "must begin with http:// or https://"},
		"no host":   {"--ops-listen=https:///x", "is not a URL"},
		"password":  {"--ops-listen=https://u:hunter2@ops", "must not hold a user"},
		"query":     {"--ops-listen=https://ops/?a=b", "must end with the path"},
		"no such":   {"--ops-token-file=" + dir + "/none", "can't be read"},
		"on view":   {"--ops-token=hunter2", "would show the token"},
		"no PEM":    {"--ops-ca=" + none, "https:// URL"},
		"no such 2": {"--ops-token=file:" + dir + "/none", "can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseAsking(t, nil, "ask", test.arg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("said %v, want %q", err, test.want)
			}
			wantNoLeak(t, err)
		})
	}
}

func TestTheOpsToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		environ string
		args    []string
	}{
		"environment":          {environ: "PACER_OPS_TOKEN=hunter2"},
		"file in environment":  {environ: "PACER_OPS_TOKEN=file:" + file},
		"file":                 {args: []string{"--ops-token-file", file}},
		"file beside the rest": {environ: "PACER_OPS_TOKEN=other", args: []string{"--ops-token=file:" + file}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseAsking(t, []string{test.environ}, append([]string{"ask"}, test.args...)...)
			if err != nil || got.Token != "hunter2" {
				t.Fatalf("got %v, %v", got, err)
			}
			if text := fmt.Sprintf("%v %+v %#v", *got, got, *got); strings.Contains(text, "hunter2") {
				t.Errorf("the token shows: %s", text)
			}
		})
	}
}

// A name that does not exist is met with the nearest that does, and with the list of them.
func TestTyposAreCorrected(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"aks":             "there is no command aks (did you mean ask?); there are ask, pause",
		"dance":           "there is no command dance; there are ask, pause",
		"ask --ops-liste": "there is no flag --ops-liste (did you mean --ops-listen?); there are --config, --help, --ops-ca, --ops-listen, --ops-token, --ops-token-file",
		"pause chanel":    `<kind> must be one of category, channel, is "chanel" (did you mean channel?)`,
		"pause":           "program pause needs <kind>: What to pause",
		"ask at all":      "program ask takes no argument at",
	} {
		t.Run(written, func(t *testing.T) {
			t.Parallel()
			_, err := parseAsking(t, nil, strings.Fields(written)...)
			if err == nil || err.Error() != want {
				t.Errorf("said  %v\nwant %s", err, want)
			}
		})
	}
}
