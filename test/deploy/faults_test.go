package deploy_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// drainMargin is what a dispatcher needs beside the drain to close its listeners and stores.
const drainMargin = 5 * time.Second

// faultsOf returns what is wrong with a compose project.
func faultsOf(p *types.Project) []string {
	var faults []string
	ds := dispatchers(p)
	if len(ds) != 2 {
		faults = append(faults, fmt.Sprintf("%d dispatchers, want 2", len(ds)))
	}
	for _, s := range ds {
		faults = append(faults, dispatcherFaults(s)...)
	}
	faults = append(faults, redisFaults(p.Services["redis"])...)
	faults = append(faults, migrateFaults(p.Services["migrate"], ds)...)
	faults = append(faults, postgresFaults(p.Services["postgres"])...)
	published := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		faults = append(faults, hardeningFaults(s)...)
		faults = append(faults, portFaults(s, published)...)
	}
	return faults
}

// dispatchers are the services that run this project's image, by name.
func dispatchers(p *types.Project) []types.ServiceConfig {
	var found []types.ServiceConfig
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		if strings.HasPrefix(name, "dispatcher") {
			found = append(found, p.Services[name])
		}
	}
	return found
}

// setting is an environment variable of the service, empty when it is not set.
func setting(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// report collects the faults of one service.
type report struct {
	service string
	faults  []string
}

// unless adds the fault when ok is false.
func (r *report) unless(ok bool, format string, args ...any) {
	if !ok {
		r.faults = append(r.faults, r.service+": "+fmt.Sprintf(format, args...))
	}
}

func dispatcherFaults(s types.ServiceConfig) []string {
	r := report{service: s.Name}
	r.unless(s.Build != nil && filepath.Base(s.Build.Dockerfile) == "Dockerfile", "is not built from Dockerfile")
	r.unless(healthcheck(s) == "CMD /dispatcher healthcheck", "healthcheck is not dispatcher healthcheck")
	r.unless(setting(s, "REDIS_URL") == "redis://redis:6379/0", "REDIS_URL is %q, not the redis service",
		setting(s, "REDIS_URL"))
	_, handed := s.Environment["DATABASE_URL"]
	r.unless(handed, "DATABASE_URL is not handed through")
	migrated := s.DependsOn["migrate"]
	r.unless(migrated.Condition == types.ServiceConditionCompletedSuccessfully && !migrated.Required,
		"does not wait for the schema where there is one")
	r.unless(s.DependsOn["redis"].Condition == types.ServiceConditionHealthy, "does not wait for a healthy redis")

	drain, err := time.ParseDuration(setting(s, "PACER_DRAIN_TIMEOUT"))
	r.unless(err == nil, "PACER_DRAIN_TIMEOUT: %v", err)
	var grace time.Duration // the 10 s of docker stop when the file says nothing are too short as well
	if s.StopGracePeriod != nil {
		grace = time.Duration(*s.StopGracePeriod)
	}
	r.unless(grace >= drain+drainMargin, "stop_grace_period %s is not longer than the drain of %s and %s", grace, drain,
		drainMargin)
	return r.faults
}

func redisFaults(s types.ServiceConfig) []string {
	r := report{service: "redis"}
	r.unless(strings.HasPrefix(s.Image, "redis:7"), "image is %q, want Redis 7", s.Image)
	for option, want := range map[string]string{
		"--appendonly": "yes", "--appendfsync": "everysec", "--maxmemory-policy": "noeviction", "--maxmemory": "1gb",
	} {
		got := "not given"
		if i := slices.Index(s.Command, option); i >= 0 && i+1 < len(s.Command) {
			got = s.Command[i+1]
		}
		r.unless(got == want, "%s is %s, want %s", option, got, want)
	}
	r.unless(healthcheck(s) != "", "no healthcheck")
	r.unless(keeps(s, "/data"), "no volume on /data")
	return r.faults
}

// migrateFaults checks that the schema is brought to the version of the dispatchers.
func migrateFaults(s types.ServiceConfig, dispatchers []types.ServiceConfig) []string {
	r := report{service: "migrate"}
	r.unless(slices.Equal(s.Command, []string{"migrate", "up"}), "command is %q, want migrate up", s.Command)
	for _, d := range dispatchers {
		r.unless(s.Image == d.Image, "image is %q, that of %s is %q", s.Image, d.Name, d.Image)
	}
	r.unless(s.DependsOn["postgres"].Condition == types.ServiceConditionHealthy, "does not wait for a healthy postgres")
	return r.faults
}

func postgresFaults(s types.ServiceConfig) []string {
	r := report{service: "postgres"}
	r.unless(strings.HasPrefix(s.Image, "postgres:17"), "image is %q, want Postgres 17", s.Image)
	r.unless(healthcheck(s) != "", "no healthcheck")
	r.unless(keeps(s, "/var/lib/postgresql/data"), "no volume on its data directory")
	return r.faults
}

// hardeningFaults checks what holds for every container.
func hardeningFaults(s types.ServiceConfig) []string {
	r := report{service: s.Name}
	user, _, _ := strings.Cut(s.User, ":")
	r.unless(user != "" && user != "root" && user != "0", "runs as root")
	r.unless(s.ReadOnly, "root file system is writable")
	r.unless(slices.Contains(s.CapDrop, "ALL") && len(s.CapAdd) == 0, "keeps capabilities")
	r.unless(slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "may gain privileges")
	r.unless(!s.Privileged, "is privileged")
	wanted := types.RestartPolicyUnlessStopped
	if s.Name == "migrate" {
		wanted = types.RestartPolicyOnFailure // it ends when it has done its work
	}
	r.unless(s.Restart == wanted, "is not restarted after a crash")
	return r.faults
}

// portFaults checks that only this host reaches the service, and adds its ports to those that are taken.
func portFaults(s types.ServiceConfig, published map[string]string) []string {
	r := report{service: s.Name}
	for _, p := range s.Ports {
		r.unless(p.HostIP == "127.0.0.1", "port %s is open to other hosts", p.Published)
		other, taken := published[p.Published]
		r.unless(!taken, "port %s is published twice, also by %s", p.Published, other)
		published[p.Published] = s.Name
	}
	return r.faults
}

// healthcheck is the service's health command in one line, empty when there is none.
func healthcheck(s types.ServiceConfig) string {
	if s.HealthCheck == nil || s.HealthCheck.Disable {
		return ""
	}
	return strings.Join(s.HealthCheck.Test, " ")
}

// keeps reports whether a named volume is mounted at the path.
func keeps(s types.ServiceConfig, path string) bool {
	return slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == types.VolumeTypeVolume && v.Source != "" && v.Target == path
	})
}

var (
	// secretName matches the names of variables that must not be written down.
	secretName = regexp.MustCompile(`TOKEN|SECRET|PASSWORD|KEY`)
	// credentials matches a URL with a password, which is its group.
	credentials = regexp.MustCompile(`://[^/@]*:([^/@]+)@`)
)

// secretsIn returns the secrets that a file holds itself: with the marker for every secret in the environment, all
// values of secrets are the marker or empty.
func secretsIn(p *types.Project) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		r := report{service: name}
		for variable := range s.Environment {
			value := setting(s, variable)
			r.unless(!secretName.MatchString(variable) || value == "" || value == marker, "%s is written into the file",
				variable)
			password := credentials.FindStringSubmatch(value)
			r.unless(password == nil || password[1] == marker, "%s holds a password", variable)
		}
		faults = append(faults, r.faults...)
	}
	return faults
}
