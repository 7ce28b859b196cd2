package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pacer-notify/pacer/internal/nearest"
)

// environmentPrefix begins the variables of all settings except the two connection strings.
const environmentPrefix = "PACER_"

// serviceLink and serviceAddress match the variables that Kubernetes sets in every container for a service that is
// called pacer, or pacer-something.
var (
	serviceLink = regexp.MustCompile(
		`^PACER_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceAddress = regexp.MustCompile(`^PACER_(\w+_)?PORT=(tcp|udp|sctp)://`)
)

// CheckEnvironment refuses environment variables that begin with PACER_ and are no setting: otherwise a misspelt
// setting would be ignored silently. environ has the form of [os.Environ]. Known are the settings of both programs, so
// that they can share an environment, and those in extra; see [EnvironmentNames]. The error joins all refusals, each a
// [*UsageError]. The variables that Kubernetes sets for a service are ignored.
func CheckEnvironment(environ []string, extra ...string) error {
	known := map[string]bool{}
	nearby := map[string]string{} // without the prefix, which would make all names alike
	for _, name := range append(ownVariables(), extra...) {
		known[name] = true
		nearby[strings.TrimPrefix(name, environmentPrefix)] = name
	}

	var faults []error
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, environmentPrefix) || known[name] ||
			serviceLink.MatchString(name) || serviceAddress.MatchString(variable) {
			continue
		}
		faults = append(faults, &UsageError{
			Setting: name,
			Message: "is set in the environment, but there is no such setting" + hint(name, nearby),
		})
	}
	return errors.Join(faults...)
}

// ownFlags are the flags of [Server], [Client] and [OpsClient].
func ownFlags() []*kong.Flag {
	var flags []*kong.Flag
	for _, settings := range []any{&Server{}, &Client{}, &OpsClient{}} {
		// Kong refuses a struct only for faults in its tags, and these are part of the program.
		parser := kong.Must(settings, kong.NoDefaultHelp(), defaultVars)
		flags = append(flags, parser.Model.Flags...)
	}
	return flags
}

// ownVariables are the environment variables of [Server], [Client] and [OpsClient].
func ownVariables() []string {
	var names []string
	for _, flag := range ownFlags() {
		names = append(names, variablesOf(flag.Value)...)
	}
	return names
}

// hint proposes the variable whose name without the prefix is nearest to the one that was set, if any is near.
func hint(name string, nearby map[string]string) string {
	near := nearest.Name(strings.TrimPrefix(name, environmentPrefix), slices.Collect(maps.Keys(nearby)))
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", nearby[near])
}
