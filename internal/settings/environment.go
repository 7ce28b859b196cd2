package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

const environmentPrefix = "PACER_"

// CheckEnvironment refuses environment variables that begin with PACER_ and are no setting, since a misspelt setting
// would be ignored without a word. environ has the form of [os.Environ]. Known are the settings of both programs, so
// that they can share an environment, and those in extra; see [EnvironmentNames]. The error joins everything that is
// refused, each a [*UsageError].
//
// What Kubernetes puts into the environment of every container for a service that is called pacer, or pacer-something,
// is passed over.
func CheckEnvironment(environ []string, extra ...string) error {
	known := map[string]bool{}
	nearby := map[string]string{} // without the prefix, which would make all names alike
	for _, name := range append(ownVariables(), extra...) {
		known[name] = true
		nearby[strings.TrimPrefix(name, environmentPrefix)] = name
	}
	serviceLink := regexp.MustCompile(`^PACER_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceAddress := regexp.MustCompile(`^PACER_(\w+_)?PORT=(tcp|udp|sctp)://`)
	var faults []error
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, environmentPrefix) || known[name] ||
			serviceLink.MatchString(name) || serviceAddress.MatchString(variable) {
			continue
		}
		faults = append(faults, &UsageError{
			Setting: name,
			Message: "is set in the environment but is no setting" +
				suggestion(strings.TrimPrefix(name, environmentPrefix), nearby),
		})
	}
	return errors.Join(faults...)
}

// ownFlags are the flags of [Server] and [Client].
func ownFlags() []*kong.Flag {
	var flags []*kong.Flag
	for _, settings := range []any{&Server{}, &Client{}} {
		// Kong refuses a struct only for faults in its tags, and these are part of the program.
		parser := kong.Must(settings, kong.NoDefaultHelp())
		flags = append(flags, parser.Model.Flags...)
	}
	return flags
}

func ownVariables() []string {
	var names []string
	for _, flag := range ownFlags() {
		names = append(names, variablesOf(flag.Value)...)
	}
	return names
}

// suggestion names the candidate whose key is nearest to what was written, if any is near.
func suggestion(written string, candidates map[string]string) string {
	nearest, least := "", len(written)/3+1
	for _, key := range slices.Sorted(maps.Keys(candidates)) {
		if d := editDistance(written, key); d < least {
			nearest, least = candidates[key], d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

// editDistance is how many characters must be put in, taken out or replaced to get from a to b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
