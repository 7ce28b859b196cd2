package deploy_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

// marker is the value of every secret in the environment of the tests.
const marker = "secret-of-the-test"

// environment is what a user has in .env, for every profile.
func environment() types.Mapping {
	return types.Mapping{"PACER_API_TOKENS": marker, "POSTGRES_PASSWORD": marker}
}

// load reads a compose file the way docker compose does, with all profiles.
func load(ctx context.Context, content string, env types.Mapping) (*types.Project, error) {
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  filepath.Join("..", ".."),
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml", Content: []byte(content)}},
		Environment: env,
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

// composeFile is the text of docker-compose.yml.
func composeFile(t *testing.T) string {
	t.Helper()
	return readFile(t, "docker-compose.yml")
}

// readFile reads a file of the repository's top directory.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestComposeFileHasNoFault(t *testing.T) {
	t.Parallel()
	if faults := inspect(t, composeFile(t)); len(faults) != 0 {
		t.Errorf("docker-compose.yml:\n%s", strings.Join(faults, "\n"))
	}
}

// inspect loads the text as a compose file and returns what is wrong with it, one sentence each.
func inspect(t *testing.T, text string) []string {
	t.Helper()
	project, err := load(t.Context(), text, environment())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	// Only what the file insists on, so that the defaults of the rest show.
	bare, err := load(t.Context(), text, types.Mapping{"PACER_API_TOKENS": marker})
	if err != nil {
		t.Fatalf("load with the required variables alone: %v", err)
	}
	return slices.Concat(faultsOf(project), secretsIn(project), secretsIn(bare))
}

func TestComposeServices(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"":        {"dispatcher-1", "dispatcher-2", "redis"},
		"durable": {"dispatcher-1", "dispatcher-2", "migrate", "postgres", "redis"},
	}
	for profile, want := range tests {
		t.Run("Profile"+profile, func(t *testing.T) {
			t.Parallel()
			project, err := load(t.Context(), composeFile(t), environment())
			if err != nil {
				t.Fatal(err)
			}
			project, err = project.WithProfiles([]string{profile})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(project.Services))); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComposeAsksForTokens(t *testing.T) {
	t.Parallel()
	_, err := load(t.Context(), composeFile(t), types.Mapping{})
	if err == nil || !strings.Contains(err.Error(), "set PACER_API_TOKENS in .env") {
		t.Errorf("without PACER_API_TOKENS: %v, want what to set", err)
	}
}

func TestComposeHandsSettingsThrough(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		env    types.Mapping
		secret *string // nil: not in the container's environment at all, which an empty one would be
	}{
		{"Required", types.Mapping{"PACER_API_TOKENS": marker}, nil},
		{"Optional", types.Mapping{"PACER_API_TOKENS": marker, "PACER_WEBHOOK_SECRET": "whsec"}, new("whsec")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			project, err := load(t.Context(), composeFile(t), tt.env)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range dispatchers(project) {
				if got := setting(s, "PACER_API_TOKENS"); got != marker {
					t.Errorf("%s: PACER_API_TOKENS = %q, want the value of the environment", s.Name, got)
				}
				if diff := cmp.Diff(tt.secret, s.Environment["PACER_WEBHOOK_SECRET"]); diff != "" {
					t.Errorf("%s: PACER_WEBHOOK_SECRET (-want +got):\n%s", s.Name, diff)
				}
			}
		})
	}
}

// Each case breaks the file in one place; a check that does not see it checks nothing.
func TestComposeFaultsAreFound(t *testing.T) {
	t.Parallel()
	const dispatcher, redis = "dispatcher-1: ", "redis: "
	tests := []struct {
		name, old, new, want string
	}{
		{"NoHealthcheck", "test: [CMD, /dispatcher, healthcheck]", "disable: true", dispatcher + "healthcheck is not"},
		{"OtherHealthcheck", "/dispatcher, healthcheck]", "/dispatcher, version]", dispatcher + "healthcheck is not"},
		{"RedisHealthcheckOff", `test: [CMD-SHELL, "redis-cli ping | grep -qx PONG"]`, "disable: true",
			redis + "no healthcheck"},
		{"PostgresHealthcheckOff", "test: [CMD, pg_isready, --username, pacer, --dbname, pacer]", "disable: true",
			"postgres: no healthcheck"},
		{"NoAppendOnlyFile", `--appendonly, "yes"`, `--appendonly, "no"`, redis + "--appendonly is"},
		{"NoSync", "--appendfsync, everysec", `--appendfsync, "no"`, redis + "--appendfsync is"},
		{"Eviction", "noeviction", "allkeys-lru", redis + "--maxmemory-policy is"},
		{"OldRedis", "redis:7.4", "redis:6.2", redis + "image is"},
		{"OldPostgres", "postgres:17", "postgres:13", "postgres: image is"},
		{"OneDispatcher", "  dispatcher-2:\n    <<: *dispatcher", "  other:\n    image: other", "1 dispatchers"},
		{"OpenAPI", "127.0.0.1:8080:8080", "8080:8080", dispatcher + "port 8080 is open"},
		{"OpenRedis", "127.0.0.1:${REDIS_PORT:-6379}", "0.0.0.0:${REDIS_PORT:-6379}", redis + "port 6379 is open"},
		{"OpenPostgres", "127.0.0.1:${POSTGRES_PORT:-5432}", "${POSTGRES_PORT:-5432}", "postgres: port 5432 is open"},
		{"PortTakenTwice", "127.0.0.1:8082", "127.0.0.1:8080", "published twice"},
		{"GraceTooShort", "stop_grace_period: 40s", "stop_grace_period: 20s", dispatcher + "stop_grace_period"},
		{"DrainTooLong", "PACER_DRAIN_TIMEOUT: 20s", "PACER_DRAIN_TIMEOUT: 60s", dispatcher + "stop_grace_period"},
		{"NoGrace", "  stop_grace_period: 40s\n", "", dispatcher + "stop_grace_period"},
		{"NoDatabase", "    DATABASE_URL:\n", "", dispatcher + "DATABASE_URL"},
		{"SchemaLater", "condition: service_completed_successfully", "condition: service_started",
			dispatcher + "does not wait for the schema"},
		{"SchemaAlways", "      required: false # only in the profile durable\n", "",
			dispatcher + "does not wait for the schema"},
		{"OtherMigration", "command: [migrate, up]", "command: [migrate, down]", "migrate: command is"},
		{"OtherSchema", "image: pacer:${VERSION:-local}\n    profiles", "image: pacer:other\n    profiles",
			"migrate: image is"},
		{"NoRedisURL", "REDIS_URL: redis://redis:6379/0", "REDIS_URL: redis://elsewhere:6379/0",
			dispatcher + "REDIS_URL"},
		{"DoesNotWait", "condition: service_healthy", "condition: service_started", dispatcher + "does not wait"},
		{"Root", `user: "65532:65532"`, `user: "0:0"`, dispatcher + "runs as root"},
		{"RootByName", "user: redis", "user: root", redis + "runs as root"},
		{"NoUser", "    user: postgres\n", "", "postgres: runs as root"},
		{"Writable", "  read_only: true", "  read_only: false", dispatcher + "root file system is writable"},
		{"Capabilities", "cap_drop: [ALL]", "cap_drop: [NET_RAW]", dispatcher + "keeps capabilities"},
		{"NewPrivileges", "security_opt: [no-new-privileges:true]", "init: true", dispatcher + "may gain privileges"},
		{"NoRestart", "restart: unless-stopped", `restart: "no"`, dispatcher + "is not restarted"},
		{"RedisForgets", "redis-data:/data", "redis-data:/elsewhere", redis + "no volume"},
		{"PostgresForgets", "postgres-data:/var", "postgres-data:/elsewhere", "postgres: no volume"},
		{"NotBuilt", "dockerfile: Dockerfile", "dockerfile: Other", dispatcher + "is not built"},
		{"TokenInline", "${PACER_API_TOKENS:?set", "hunter2 # ", dispatcher + "PACER_API_TOKENS is written"},
		{"PasswordInline", "${POSTGRES_PASSWORD:-}", "hunter2", "postgres: POSTGRES_PASSWORD is written"},
		{"PasswordAsDefault", "${POSTGRES_PASSWORD:-}", "${POSTGRES_PASSWORD:-hunter2}",
			"postgres: POSTGRES_PASSWORD is written"},
		{"PasswordInURL", "redis://redis:6379/0", "redis://:hunter2@redis:6379/0",
			dispatcher + "REDIS_URL holds a password"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := composeFile(t)
			if !strings.Contains(text, tt.old) {
				t.Fatalf("docker-compose.yml does not contain %q any more", tt.old)
			}
			faults := strings.Join(inspect(t, strings.Replace(text, tt.old, tt.new, 1)), "\n")
			if !strings.Contains(faults, tt.want) {
				t.Errorf("faults:\n%s\nwant one with %q", faults, tt.want)
			}
		})
	}
}
