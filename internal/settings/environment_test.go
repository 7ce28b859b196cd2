package settings_test

import (
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
)

func TestCheckEnvironmentAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"nothing":                  nil,
		"what is no business here": {"PATH=/bin", "PACER=1", "PACERS_X=1", "XPACER_PARTITIONS=1", "REDIS_ULR=x", "=C:=x", "BROKEN"},
		"settings of a dispatcher": {
			"PACER_CONFIG=x", "PACER_LISTEN=x", "PACER_OPS_LISTEN=x", "PACER_POLICY=x", "PACER_API_TOKENS=x",
			"PACER_CONCURRENCY=x", "PACER_PARTITIONS=x", "PACER_DRAIN_TIMEOUT=x", "PACER_WEBHOOK_ALLOW=x",
			"PACER_WEBHOOK_SECRET=x", "PACER_LOG_FORMAT=x", "PACER_LOG_LEVEL=x", "PACER_ROLES=x",
		},
		"settings of a producer": {"PACER_SERVER=x", "PACER_TOKEN=x"},
		"extra names":            {"PACER_COUNT=3"},
		"a Kubernetes service named pacer": {
			"PACER_SERVICE_HOST=10.0.0.1", "PACER_SERVICE_PORT=8080", "PACER_SERVICE_PORT_HTTP=8080",
			"PACER_PORT=tcp://10.0.0.1:8080", "PACER_PORT_8080_TCP=tcp://10.0.0.1:8080", "PACER_PORT_8080_TCP_PROTO=tcp",
			"PACER_PORT_8080_TCP_PORT=8080", "PACER_PORT_8080_TCP_ADDR=10.0.0.1", "PACER_PORT_53_UDP_ADDR=10.0.0.1",
		},
		"a Kubernetes service named pacer-ops": {
			"PACER_OPS_SERVICE_HOST=10.0.0.1", "PACER_OPS_SERVICE_PORT_METRICS=8081", "PACER_OPS_PORT=tcp://10.0.0.1:8081",
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
	tests := map[string]struct {
		environ []string
		want    []string
	}{
		"a misspelt name":      {[]string{"PACER_PARTITION=hunter2"}, []string{"PACER_PARTITION is set in the environment but is no setting; did you mean PACER_PARTITIONS?"}},
		"letters exchanged":    {[]string{"PACER_CONCURRENYC=1"}, []string{"PACER_CONCURRENYC is set in the environment but is no setting; did you mean PACER_CONCURRENCY?"}},
		"a prefix too many":    {[]string{"PACER_REDIS_URL=redis://:hunter2@r"}, []string{"PACER_REDIS_URL is set in the environment but is no setting; did you mean REDIS_URL?"}},
		"an extra misspelt":    {[]string{"PACER_COUNTS=3"}, []string{"PACER_COUNTS is set in the environment but is no setting; did you mean PACER_COUNT?"}},
		"nothing near":         {[]string{"PACER_XYZ=1"}, []string{"PACER_XYZ is set in the environment but is no setting"}},
		"set to nothing":       {[]string{"PACER_XYZ="}, []string{"PACER_XYZ is set in the environment but is no setting"}},
		"the prefix alone":     {[]string{"PACER_=1"}, []string{"PACER_ is set in the environment but is no setting"}},
		"a port by hand":       {[]string{"PACER_PORT=8080"}, []string{"PACER_PORT is set in the environment but is no setting"}},
		"another port":         {[]string{"PACER_PORT_8080=1"}, []string{"PACER_PORT_8080 is set in the environment but is no setting"}},
		"lower case":           {[]string{"PACER_partitions=1"}, []string{"PACER_partitions is set in the environment but is no setting"}},
		"several, in order":    {[]string{"PACER_ZZZ=1", "PACER_AAA=1"}, []string{"PACER_AAA is set in the environment but is no setting", "PACER_ZZZ is set in the environment but is no setting"}},
		"one among right ones": {[]string{"PACER_PARTITIONS=1", "PACER_ROLE=api", "PACER_LISTEN=x"}, []string{"PACER_ROLE is set in the environment but is no setting; did you mean PACER_ROLES?"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefusals(t, settings.CheckEnvironment(test.environ, "PACER_COUNT"), test.want...)
		})
	}
}

func ExampleCheckEnvironment() {
	fmt.Println(settings.CheckEnvironment([]string{"PACER_PARTITIONS=16", "PACER_LISTENS=:8080"}))
	// Output:
	// PACER_LISTENS is set in the environment but is no setting; did you mean PACER_LISTEN?
}
