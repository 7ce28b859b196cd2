package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsFileRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown setting": {
			text: "listen: :1\n\npartition: 4",
			want: []string{`FILE:3:1: unknown setting "partition" (did you mean partitions?)`},
		},
		"nothing near": {text: "replicas: 4", want: []string{`FILE:1:1: unknown setting "replicas"`}},
		"camel case": {
			text: "opsListen: :1", want: []string{`FILE:1:1: unknown setting "opsListen" (did you mean ops-listen?)`},
		},
		"two at once": {
			text: "redis_ulr: x\npartitions: 3\npolcy: x",
			want: []string{
				`FILE:1:1: unknown setting "redis_ulr" (did you mean redis-url?)`,
				`FILE:3:1: unknown setting "polcy" (did you mean policy?)`,
			},
		},
		"file in file": {
			text: "config: other.yaml", want: []string{"FILE:1:1: config can't be set in the settings file itself"},
		},
		"help": {text: "help: true", want: []string{`FILE:1:1: unknown setting "help"`}},
		"twice in two ways": {
			text: "log-level: info\nlog_level: warn", want: []string{"FILE:2:1: log-level is already set on line 1"},
		},
		"no value": {
			text: "policy:", want: []string{"FILE:1:9: policy must be a value or a list of values"},
		},
		"a mapping": {
			text: "partitions:\n  count: 3",
			want: []string{"FILE:2:8: partitions must be a value or a list of values"},
		},
		"a list in a list": {text: "roles: [[api]]", want: []string{"FILE:1:9: roles must be a list of single values"}},
		"not a number": {
			text: "listen: :1\npartitions: many", want: []string{"FILE:2:13: partitions must be a whole number between 1 and 1024"},
		},
		"a list for a number": {
			text: "partitions: [1, 2]", want: []string{"FILE:1:13: partitions must be a whole number between 1 and 1024"},
		},
		"a list for a text": {text: "policy: [a, b]", want: []string{"FILE:1:9: policy must be a single value"}},
		"not a duration": {
			text: "drain-timeout: 20", want: []string{"FILE:1:16: drain-timeout must be a duration such as 20s, 15m or 720h"},
		},
		"out of range": {
			text: "partitions: 0", want: []string{"--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0"},
		},
		"a list of settings": {
			text: "- partitions: 4", want: []string{"FILE:1:1: a settings file must hold lines such as partitions: 16"},
		},
		"broken YAML": {
			text: "partitions: 4\nroles: [api",
			want: []string{"FILE:2:8: not readable as YAML: sequence end token ']' not found"},
		},
		"broken beside secret": {
			text: "webhook-secret: [hunter2",
			want: []string{"FILE:1:17: not readable as YAML: sequence end token ']' not found"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := settingsFile(t, test.text)
			_, err := parse(t, nil, "serve", "--config", path)
			for i := range test.want {
				test.want[i] = strings.Replace(test.want[i], "FILE", path, 1)
			}
			wantRefusals(t, err, test.want...)
		})
	}
}

func TestEmptySettingsFileSetsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "a comment": "# nothing yet\n", "the start of a document": "---\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if p, err := parse(t, nil, "--config", path); err != nil || p.Serve.Partitions != 16 {
				t.Errorf("%v, %s", err, p.Serve)
			}
		})
	}
}
