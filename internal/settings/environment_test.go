package settings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
)

func TestCheckEnvironmentAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"nothing": nil,
		"variables of others": {
			"PATH=/bin", "PACER=1", "PACERS_X=1", "XPACER_PARTITIONS=1", "REDIS_ULR=x", "=C:=x", "BROKEN",
		},
		"settings of a dispatcher": {
			"PACER_CONFIG=x", "PACER_LISTEN=x", "PACER_OPS_LISTEN=x", "PACER_POLICY=x", "PACER_API_TOKENS=x",
			"PACER_CONCURRENCY=x", "PACER_PARTITIONS=x", "PACER_DRAIN_TIMEOUT=x", "PACER_WEBHOOK_ALLOW=x",
			"PACER_WEBHOOK_SECRET=x", "PACER_LOG_FORMAT=x", "PACER_LOG_LEVEL=x", "PACER_ROLES=x",
		},
		"settings of a producer": {"PACER_SERVER=x", "PACER_TOKEN=x"},
		"extra names":            {"PACER_COUNT=3"},
		"a Kubernetes service named pacer": {
			"PACER_SERVICE_HOST=10.0.0.1", "PACER_SERVICE_PORT=8080", "PACER_SERVICE_PORT_HTTP=8080",
			"PACER_PORT=tcp://10.0.0.1:8080", "PACER_PORT_8080_TCP=tcp://10.0.0.1:8080",
			"PACER_PORT_8080_TCP_PROTO=tcp",
			"PACER_PORT_8080_TCP_PORT=8080", "PACER_PORT_8080_TCP_ADDR=10.0.0.1", "PACER_PORT_53_UDP_ADDR=10.0.0.1",
		},
		"a Kubernetes service named pacer-ops": {
			"PACER_OPS_SERVICE_HOST=10.0.0.1", "PACER_OPS_SERVICE_PORT_METRICS=8081",
			"PACER_OPS_PORT=tcp://10.0.0.1:8081",
			"PACER_OPS_PORT_8081_TCP_ADDR=10.0.0.1",
		},
	}
	for name, environ := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := settings.CheckEnvironment(environ, "PACER_COUNT"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckEnvironmentRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ variable, suggestion string }{
		"a misspelt name":   {variable: "PACER_PARTITION=hunter2", suggestion: "PACER_PARTITIONS"},
		"letters exchanged": {variable: "PACER_CONCURRENYC=1", suggestion: "PACER_CONCURRENCY"},
		"a prefix too many": {variable: "PACER_REDIS_URL=redis://:hunter2@r", suggestion: "REDIS_URL"},
		"an extra misspelt": {variable: "PACER_COUNTS=3", suggestion: "PACER_COUNT"},
		"nothing near":      {variable: "PACER_XYZ=1"},
		"set to nothing":    {variable: "PACER_XYZ="},
		"the prefix alone":  {variable: "PACER_=1"},
		"a port by hand":    {variable: "PACER_PORT=8080"},
		"another port":      {variable: "PACER_PORT_8080=1"},
		"lower case":        {variable: "PACER_partitions=1", suggestion: "PACER_PARTITIONS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variable, _, _ := strings.Cut(test.variable, "=")
			err := settings.CheckEnvironment([]string{test.variable}, "PACER_COUNT")
			if err == nil || !strings.HasPrefix(err.Error(), variable+" ") ||
				test.suggestion != "" && !strings.Contains(err.Error(), test.suggestion+"?") {
				t.Errorf("got %v, want %s refused, and %q suggested", err, variable, test.suggestion)
			}
			wantNoLeak(t, err)
		})
	}
}

// Several variables are refused at once, in order; those that are settings are not.
func TestCheckEnvironmentRefusesAll(t *testing.T) {
	t.Parallel()
	environ := []string{"PACER_ZZZ=1", "PACER_PARTITIONS=1", "PACER_ROLE=api", "PACER_AAA=1", "PACER_LISTEN=x"}
	err := settings.CheckEnvironment(environ, "PACER_COUNT")
	if err == nil {
		t.Fatal("accepted")
	}
	var refused []string
	for line := range strings.Lines(err.Error()) {
		variable, _, _ := strings.Cut(line, " ")
		refused = append(refused, variable)
	}
	if want := []string{"PACER_AAA", "PACER_ROLE", "PACER_ZZZ"}; !slices.Equal(refused, want) {
		t.Errorf("refused are %q, want %q", refused, want)
	}
}

func ExampleCheckEnvironment() {
	fmt.Println(settings.CheckEnvironment([]string{"PACER_PARTITIONS=16", "PACER_LISTENS=:8080"}))
	// Output:
	// PACER_LISTENS is set in the environment, but there is no such setting (did you mean PACER_LISTEN?)
}
