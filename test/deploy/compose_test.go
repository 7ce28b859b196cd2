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

// While its image initialises the database, Postgres responds on its socket only. Whoever started then would be cut
// off.
func TestComposeWaitsForAnInitialisedPostgres(t *testing.T) {
	t.Parallel()
	project, err := load(t.Context(), composeFile(t), environment())
	if err != nil {
		t.Fatal(err)
	}
	project, err = project.WithProfiles([]string{"durable"})
	if err != nil {
		t.Fatal(err)
	}
	test := project.Services["postgres"].HealthCheck.Test
	if at := slices.Index(test, "--host"); at < 0 || test[at+1] != "127.0.0.1" {
		t.Errorf("the health check is %q, which does not ask over TCP", test)
	}
	if needs := project.Services["migrate"].DependsOn["postgres"].Condition; needs != types.ServiceConditionHealthy {
		t.Errorf("the schema waits for Postgres to be %q", needs)
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
		{name: "Required", env: types.Mapping{"PACER_API_TOKENS": marker}},
		{
			name: "Optional", env: types.Mapping{"PACER_API_TOKENS": marker, "PACER_WEBHOOK_SECRET": "whsec"},
			secret: new("whsec"),
		},
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
		{
			name: "NoHealthcheck", old: "test: [CMD, /dispatcher, healthcheck]", new: "disable: true",
			want: dispatcher + "healthcheck is not",
		},
		{
			name: "OtherHealthcheck", old: "/dispatcher, healthcheck]", new: "/dispatcher, version]",
			want: dispatcher + "healthcheck is not",
		},
		{
			name: "RedisHealthcheckOff", old: `test: [CMD-SHELL, "redis-cli ping | grep -qx PONG"]`,
			new: "disable: true", want: redis + "no healthcheck",
		},
		{
			name: "PostgresHealthcheckOff", old: "test: [CMD, pg_isready, --host, 127.0.0.1, --username, pacer, --dbname, pacer]",
			new: "disable: true", want: "postgres: no healthcheck",
		},
		{
			name: "NoAppendOnlyFile", old: `--appendonly, "yes"`, new: `--appendonly, "no"`,
			want: redis + "--appendonly is",
		},
		{name: "NoSync", old: "--appendfsync, everysec", new: `--appendfsync, "no"`, want: redis + "--appendfsync is"},
		{name: "Eviction", old: "noeviction", new: "allkeys-lru", want: redis + "--maxmemory-policy is"},
		{name: "OldRedis", old: "redis:7.4", new: "redis:6.2", want: redis + "image is"},
		{name: "OldPostgres", old: "postgres:17", new: "postgres:13", want: "postgres: image is"},
		{
			name: "OneDispatcher", old: "  dispatcher-2:\n    <<: *dispatcher", new: "  other:\n    image: other",
			want: "1 dispatchers",
		},
		{name: "OpenAPI", old: "127.0.0.1:8080:8080", new: "8080:8080", want: dispatcher + "port 8080 is open"},
		{
			name: "OpenRedis", old: "127.0.0.1:${REDIS_PORT:-6379}", new: "0.0.0.0:${REDIS_PORT:-6379}",
			want: redis + "port 6379 is open",
		},
		{
			name: "OpenPostgres", old: "127.0.0.1:${POSTGRES_PORT:-5432}", new: "${POSTGRES_PORT:-5432}",
			want: "postgres: port 5432 is open",
		},
		{name: "PortTakenTwice", old: "127.0.0.1:8082", new: "127.0.0.1:8080", want: "published twice"},
		{
			name: "GraceTooShort", old: "stop_grace_period: 40s", new: "stop_grace_period: 20s",
			want: dispatcher + "stop_grace_period",
		},
		{
			name: "DrainTooLong", old: "PACER_DRAIN_TIMEOUT: 20s", new: "PACER_DRAIN_TIMEOUT: 60s",
			want: dispatcher + "stop_grace_period",
		},
		{name: "NoGrace", old: "  stop_grace_period: 40s\n", want: dispatcher + "stop_grace_period"},
		{name: "NoDatabase", old: "    DATABASE_URL:\n", want: dispatcher + "DATABASE_URL"},
		{
			name: "SchemaLater", old: "condition: service_completed_successfully", new: "condition: service_started",
			want: dispatcher + "does not wait for the schema",
		},
		{
			name: "SchemaAlways", old: "      required: false # only in the profile durable\n",
			want: dispatcher + "does not wait for the schema",
		},
		{
			name: "OtherMigration", old: "command: [migrate, up]", new: "command: [migrate, down]",
			want: "migrate: command is",
		},
		{
			name: "OtherSchema", old: "image: pacer:${VERSION:-local}\n    profiles",
			new: "image: pacer:other\n    profiles", want: "migrate: image is",
		},
		{
			name: "NoRedisURL", old: "REDIS_URL: redis://redis:6379/0", new: "REDIS_URL: redis://elsewhere:6379/0",
			want: dispatcher + "REDIS_URL",
		},
		{
			name: "DoesNotWait", old: "condition: service_healthy", new: "condition: service_started",
			want: dispatcher + "does not wait",
		},
		{name: "Root", old: `user: "65532:65532"`, new: `user: "0:0"`, want: dispatcher + "runs as root"},
		{name: "RootByName", old: "user: redis", new: "user: root", want: redis + "runs as root"},
		{name: "NoUser", old: "    user: postgres\n", want: "postgres: runs as root"},
		{
			name: "Writable", old: "  read_only: true", new: "  read_only: false",
			want: dispatcher + "root file system is writable",
		},
		{
			name: "Capabilities", old: "cap_drop: [ALL]", new: "cap_drop: [NET_RAW]",
			want: dispatcher + "keeps capabilities",
		},
		{
			name: "NewPrivileges", old: "security_opt: [no-new-privileges:true]", new: "init: true",
			want: dispatcher + "may gain privileges",
		},
		{
			name: "NoRestart", old: "restart: unless-stopped", new: `restart: "no"`,
			want: dispatcher + "is not restarted",
		},
		{name: "RedisForgets", old: "redis-data:/data", new: "redis-data:/elsewhere", want: redis + "no volume"},
		{
			name: "PostgresForgets", old: "postgres-data:/var", new: "postgres-data:/elsewhere",
			want: "postgres: no volume",
		},
		{name: "NotBuilt", old: "dockerfile: Dockerfile", new: "dockerfile: Other", want: dispatcher + "is not built"},
		{
			name: "TokenInline", old: "${PACER_API_TOKENS:?set", new: "hunter2 # ",
			want: dispatcher + "PACER_API_TOKENS is written",
		},
		{
			name: "PasswordInline", old: "${POSTGRES_PASSWORD:-}", new: "hunter2",
			want: "postgres: POSTGRES_PASSWORD is written",
		},
		{
			name: "PasswordAsDefault", old: "${POSTGRES_PASSWORD:-}", new: "${POSTGRES_PASSWORD:-hunter2}",
			want: "postgres: POSTGRES_PASSWORD is written",
		},
		{
			name: "PasswordInURL", old: "redis://redis:6379/0", new: "redis://:hunter2@redis:6379/0",
			want: dispatcher + "REDIS_URL holds a password",
		},
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
