package settings

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Environ are environment variables in the form of [os.Environ]. Given to [NewParser] as an option, they stand in for
// the process's own.
type Environ []string

// Apply implements [kong.Option]. It does nothing; NewParser looks for the option itself.
func (Environ) Apply(*kong.Kong) error { return nil }

// lookup finds a variable. One that is set to nothing counts as not set; when a variable is repeated, the last counts.
func (e Environ) lookup(name string) (string, bool) {
	for _, variable := range slices.Backward(e) {
		if key, value, ok := strings.Cut(variable, "="); ok && key == name {
			return value, value != ""
		}
	}
	return "", false
}

// defaultVars are what the help of shared settings says. A program that works otherwise says so with [kong.Vars].
var defaultVars = kong.Vars{"without_redis_url": "a Redis within the process"}

// NewParser builds the command line of a program. cli points to a struct with [kong]'s tags, which may embed [Server],
// [Client] and their parts; options go to kong. [Parse] reads the command line.
//
// Every flag takes its value from the command line, else from its environment variable, else from the settings file if
// its command has the flag --config, else from its default. A flag with the tag env:"-" has no variable.
func NewParser(cli any, name, description string, options ...kong.Option) (*kong.Kong, error) {
	environ := Environ(os.Environ())
	for _, option := range options {
		if given, ok := option.(Environ); ok {
			environ = given
		}
	}
	own := []kong.Option{
		kong.Name(name),
		kong.Description(description),
		defaultVars,
		kong.PostBuild(takeEnvironment),
		kong.ValueFormatter(showEnvironment),
		// Kong calls this for each part of the command line that it has read. The first part is the program.
		kong.WithBeforeResolve(func(ctx *kong.Context, part *kong.Path) error {
			if part.App == nil {
				return nil
			}
			resolver, err := newSources(ctx, environ)
			if err != nil {
				return err
			}
			ctx.AddResolver(resolver)
			ctx.Bind(resolver.named)
			return nil
		}),
	}
	return kong.New(cli, append(own, options...)...)
}

// Parse reads a command line and checks its settings. The error joins all refusals, each a [*UsageError].
func Parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	if err := checkUTF8(parser, args); err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(args)
	if err == nil {
		return ctx, nil
	}
	if refused := usageErrors(err); len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	return nil, &UsageError{Message: withoutPassword(corrected(err))}
}

// withoutPassword hides user and password of URLs that kong quotes, as it does with an unexpected argument.
func withoutPassword(message string) string {
	return regexp.MustCompile(`(?s)://.*@`).ReplaceAllLiteralString(message, "://<secret>@")
}

// EnvironmentNames lists the environment variables of every flag of a parser. [CheckEnvironment] takes them.
func EnvironmentNames(parser *kong.Kong) []string {
	var names []string
	for _, flag := range allFlags(parser.Model.Node) {
		names = append(names, variablesOf(flag.Value)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// allFlags are the flags of a command and of all commands below it.
func allFlags(node *kong.Node) []*kong.Flag {
	flags := slices.Clone(node.Flags)
	for _, child := range node.Children {
		flags = append(flags, allFlags(child)...)
	}
	return flags
}

// takeEnvironment keeps kong from reading the environment. Kong would read it before it knows the settings file, and
// would not say which variable is at fault.
func takeEnvironment(parser *kong.Kong) error {
	for _, flag := range allFlags(parser.Model.Node) {
		flag.Envs, flag.Tag.Envs = nil, nil
	}
	return nil
}

// variablesOf are the environment variables of a flag.
func variablesOf(value *kong.Value) []string {
	if value.Flag == nil || value.Name == "help" {
		return nil
	}
	tag := value.Tag.GetAll("env")
	if len(tag) == 0 {
		return []string{environmentName(value.Name)}
	}
	names := strings.FieldsFunc(strings.Join(tag, ","), func(c rune) bool { return c == ',' || c == ' ' })
	return slices.DeleteFunc(names, func(name string) bool { return name == "-" })
}

// showEnvironment adds a flag's environment variable to its help.
func showEnvironment(value *kong.Value) string {
	names := variablesOf(value)
	if len(names) == 0 {
		return value.Help
	}
	return strings.TrimSpace(value.Help + " ($" + strings.Join(names, ", $") + ")")
}

// decode reads a value as the flag would, and forgets it. It finds a wrong value before kong does.
func decode(flag *kong.Flag, value any) error {
	target := reflect.New(flag.Target.Type()).Elem()
	scanner := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value})
	return flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scanner}, target)
}
