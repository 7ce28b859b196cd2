package settings

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// sources gives kong the values of the flags that the command line leaves out: from the environment, else from the
// settings file. It implements [kong.Resolver].
type sources struct {
	environ Environ
	file    *settingsFile // nil without one
	named   Named         // the senders with names in the file
}

// newSources reads the settings file that the command line or the environment names.
func newSources(ctx *kong.Context, environ Environ) (*sources, error) {
	s := &sources{environ: environ}
	path := configPath(ctx, environ)
	if path == "" {
		return s, nil
	}
	known := map[string]string{}
	for _, flag := range append(allFlags(ctx.Model.Node), ownFlags()...) {
		known[flag.Name] = flag.Name
	}
	delete(known, "help")
	delete(known, configFlag)
	var err error
	if s.file, err = readFile(path, known); err != nil {
		return nil, err
	}
	s.named, err = s.file.decodeNamed()
	return s, err
}

// decodeNamed reads the settings of the senders with names, as kong reads those of their kinds.
func (f *settingsFile) decodeNamed() (Named, error) {
	if len(f.named) == 0 {
		return nil, nil //nolint:nilnil // none is no fault
	}
	named := Named{}
	for name, given := range f.named {
		var line struct{ Channels }
		prefix := string(name.Kind()) + "-"
		// Kong refuses a struct only for faults in its tags, and these are part of the program.
		parser := kong.Must(&line, kong.NoDefaultHelp(), defaultVars, kong.PostBuild(takeEnvironment),
			kong.Bind(Named{}),
			kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
				key, of := strings.CutPrefix(flag.Name, prefix)
				setting, set := given[key]
				if !of || !set {
					return nil, nil //nolint:nilnil // kong's way of saying no
				}
				if err := decode(flag, setting.value); err != nil {
					return nil, f.refuse(setting.line, setting.column, "%s%s must be %s", namedPrefix(name), key, wanted(flag, err))
				}
				return setting.value, nil
			})))
		if _, err := parser.Parse(nil); err != nil {
			return nil, err
		}
		for _, s := range line.senders() {
			if s.name == name.Kind() {
				named[name] = s.settings.Interface()
			}
		}
	}
	return named, nil
}

// configFlag names the settings file.
const configFlag = "config"

// configPath is the settings file of the selected command, if the command takes one.
func configPath(ctx *kong.Context, environ Environ) string {
	for _, part := range ctx.Path {
		if part.Flag != nil && part.Flag.Name == configFlag {
			path, _ := ctx.FlagValue(part.Flag).(string)
			return path
		}
	}
	for _, flag := range ctx.Flags() {
		if flag.Name != configFlag {
			continue
		}
		for _, name := range variablesOf(flag.Value) {
			if path, ok := environ.lookup(name); ok {
				return path
			}
		}
	}
	return ""
}

// Validate implements [kong.Resolver]. The file was checked when it was read.
func (*sources) Validate(*kong.Application) error { return nil }

// Resolve implements [kong.Resolver]. It returns nil when no source has the flag.
func (s *sources) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range variablesOf(flag.Value) {
		if value, ok := s.environ.lookup(name); ok {
			if err := decode(flag, value); err != nil {
				return nil, &UsageError{Setting: name, Message: "must be " + wanted(flag, err)}
			}
			return value, nil
		}
	}
	if s.file == nil {
		return nil, nil //nolint:nilnil // kong's way of saying no
	}
	setting, ok := s.file.settings[flag.Name]
	if !ok {
		return nil, nil //nolint:nilnil // kong's way of saying no
	}
	if err := decode(flag, setting.value); err != nil {
		return nil, s.file.refuse(setting.line, setting.column, "%s must be %s", flag.Name, wanted(flag, err))
	}
	return setting.value, nil
}

// wanted says what a flag takes. It replaces kong's reason for a refusal, which shows the value.
func wanted(flag *kong.Flag, reason error) string {
	if flag.Target.Type() == reflect.TypeFor[time.Duration]() {
		return "a duration such as 20s, 15m or 720h"
	}
	switch flag.Target.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if highest, bounded := highest[flag.Name]; bounded {
			return fmt.Sprintf("a whole number between 1 and %d", highest)
		}
		return "a whole number"
	case reflect.String:
		return "a single value"
	case reflect.Slice:
		return "a list, or values with commas between them"
	default:
		return fmt.Sprintf("something else: %v", reason)
	}
}
