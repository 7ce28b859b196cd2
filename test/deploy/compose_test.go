package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

// readFile reads a file of the repository's top directory.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compose reads docker-compose.yml with all profiles, as docker compose does.
func compose(t *testing.T, env types.Mapping) (*types.Project, error) {
	t.Helper()
	const name = "docker-compose.yml"
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Join("..", ".."),
		ConfigFiles: []types.ConfigFile{{Filename: name, Content: []byte(readFile(t, name))}},
		Environment: env,
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

// loaded is the project with the secrets that a user has in .env.
func loaded(t *testing.T) *types.Project {
	t.Helper()
	project, err := compose(t, types.Mapping{"PACER_API_TOKENS": "token-of-the-test", "POSTGRES_PASSWORD": "password"})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// value is an environment variable of a service, empty when it is not set.
func value(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// Two dispatchers share one Redis and one schema, and differ in their ports alone.
func TestComposeDispatchersShareTheirSettings(t *testing.T) {
	t.Parallel()
	project := loaded(t)
	one, two := project.Services["dispatcher-1"], project.Services["dispatcher-2"]
	for _, service := range []*types.ServiceConfig{&one, &two} {
		if len(service.Ports) != 2 {
			t.Errorf("%s publishes %d ports, want its API and its ops pages", service.Name, len(service.Ports))
		}
		service.Name, service.Ports = "", nil
	}
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("the dispatchers differ:\n%s", diff)
	}
	if value(one, "REDIS_URL") != "redis://redis:6379/0" || value(one, "PACER_API_TOKENS") != "token-of-the-test" {
		t.Errorf("the dispatchers have the environment %v", one.Environment)
	}
	drain, err := time.ParseDuration(value(one, "PACER_DRAIN_TIMEOUT"))
	if err != nil || one.StopGracePeriod == nil || time.Duration(*one.StopGracePeriod) < drain+5*time.Second {
		t.Errorf("the drain takes up to %s, %v; killed after %v", drain, err, one.StopGracePeriod)
	}
	if migrate := project.Services["migrate"]; migrate.Image != one.Image ||
		one.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully || one.DependsOn["migrate"].Required {
		t.Error("the dispatchers do not wait for the schema of their image, where there is one")
	}
	if _, err := compose(t, types.Mapping{}); err == nil {
		t.Error("the API of the container starts without tokens")
	}
}

// Redis and Postgres keep what they hold, and are asked over TCP: a server that initialises listens elsewhere.
func TestComposeStoresForgetNothing(t *testing.T) {
	t.Parallel()
	services := loaded(t).Services
	command := strings.Join(services["redis"].Command, " ")
	for _, option := range []string{"--appendonly yes", "--maxmemory-policy noeviction", "--maxmemory 1gb"} {
		if !strings.Contains(command, option) {
			t.Errorf("redis runs without %s: %s", option, command)
		}
	}
	for service, folder := range map[string]string{"redis": "/data", "postgres": "/var/lib/postgresql/data"} {
		if !slices.ContainsFunc(services[service].Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume && v.Source != "" && v.Target == folder
		}) {
			t.Errorf("%s has no volume on %s", service, folder)
		}
	}
	if test := services["postgres"].HealthCheck.Test; !slices.Contains(test, "127.0.0.1") {
		t.Errorf("the health check of postgres is %q", test)
	}
	for from, to := range map[string]string{"dispatcher-1": "redis", "migrate": "postgres"} {
		if services[from].DependsOn[to].Condition != types.ServiceConditionHealthy || services[to].HealthCheck == nil {
			t.Errorf("%s does not wait for a healthy %s", from, to)
		}
	}
}

// No container has more rights than it needs, nobody else reaches a port, and no secret is written down.
func TestComposeIsConfined(t *testing.T) {
	t.Parallel()
	project, published := loaded(t), map[string]bool{}
	if names := slices.Sorted(maps.Keys(project.Services)); len(names) != 5 {
		t.Errorf("the services are %q", names)
	}
	for name, s := range project.Services {
		user, _, _ := strings.Cut(s.User, ":")
		if user == "" || user == "root" || user == "0" || !s.ReadOnly || s.Privileged || len(s.CapAdd) > 0 ||
			!slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" || published[port.Published] {
				t.Errorf("%s: port %s is open to other hosts, or published twice", name, port.Published)
			}
			published[port.Published] = true
		}
	}
	secret := regexp.MustCompile(`(?m)^ *\w*(TOKEN|SECRET|PASSWORD|KEY)\w*: *[^$\s#].*$|://[^/@\s]*:[^/@\s$]+@`)
	code := regexp.MustCompile(`(?m)^ *#.*$`).ReplaceAllString(readFile(t, "docker-compose.yml"), "")
	if found := secret.FindString(code); found != "" {
		t.Errorf("docker-compose.yml holds a secret: %s", found)
	}
}
