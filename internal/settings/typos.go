package settings

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pacer-notify/pacer/internal/nearest"
)

// What kong says of a name that it does not know. It gives such errors no type.
var (
	unknownFlag        = regexp.MustCompile(`^unknown flag (\S+?)(?:, did you mean .*)?$`)
	unexpectedArgument = regexp.MustCompile(`^unexpected argument (.*?)(?:, did you mean .*)?$`)
	missingArgument    = regexp.MustCompile(`^expected "<([^>]+)>.*"$`)
	notInEnum          = regexp.MustCompile(`^(\S+) must be one of (\S+) but got "(.*)"$`)
	missingCommand     = regexp.MustCompile(`^expected one of "`)
	missingFlags       = regexp.MustCompile(`^missing flags: (.*)$`)
	missingValue       = regexp.MustCompile(`^--(\S+): (?:expected \S+ value but got "EOL".*|missing value.*)$`)
	wrongType          = regexp.MustCompile(`^--(\S+): (?:expected|bool value) .* but got "(.*?)"(?:: .*)?$`)
)

// maxFlagsTold is how many flags a refusal spells out.
const maxFlagsTold = 12

// corrected says which name was probably meant, and which names there are, where kong's message is about an unknown
// command, flag or value. Any other message stays as it is.
func corrected(err error) string {
	message := err.Error()
	failed, ok := errors.AsType[*kong.ParseError](err)
	if !ok || failed.Context == nil {
		return message
	}
	if found := unknownFlag.FindStringSubmatch(message); found != nil {
		node := lastNode(failed.Context)
		if node.DefaultCmd != nil {
			node = node.DefaultCmd // it takes flags without being named
		}
		return "there is no flag " + found[1] + nearest.Hint(found[1], flagNames(node)) + "; " + flagsOf(node)
	}
	if found := unexpectedArgument.FindStringSubmatch(message); found != nil {
		node := lastNode(failed.Context)
		if node.Parent != nil && !slices.Contains(failed.Context.Args, node.Name) {
			node = node.Parent // of a default command, which nobody named
		}
		if commands := commandNames(node); len(commands) > 0 {
			said := node.FullPath() + " has no command "
			if node.Parent == nil {
				said = "there is no command "
			}
			return said + found[1] + nearest.Hint(found[1], commands) + "; there are " +
				strings.Join(slices.Sorted(slices.Values(commands)), ", ")
		}
		return node.FullPath() + " takes no argument " + found[1]
	}
	if found := missingArgument.FindStringSubmatch(message); found != nil {
		return needs(lastNode(failed.Context), found[1])
	}
	if found := notInEnum.FindStringSubmatch(message); found != nil {
		values := strings.Split(strings.ReplaceAll(found[2], `"`, ""), ",")
		return found[1] + " must be one of " + nearest.List(values) + `, is "` + found[3] + `"` +
			nearest.Hint(found[3], values)
	}
	if missingCommand.MatchString(message) {
		node := lastNode(failed.Context)
		return node.FullPath() + " needs a command: one of " +
			nearest.List(slices.Sorted(slices.Values(commandNames(node))))
	}
	return wrongValue(failed.Context, message)
}

// wrongValue says what a flag takes that is missing, or has no value or one of another type. Any other message stays.
func wrongValue(ctx *kong.Context, message string) string {
	if found := missingFlags.FindStringSubmatch(message); found != nil {
		var needed []string
		for name := range strings.SplitSeq(found[1], ", ") {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "--"), "=")
			if flag := flagOf(ctx, name); flag != nil {
				needed = append(needed, titleOf(flag)+": "+helpOf(flag))
			}
		}
		return lastNode(ctx).FullPath() + " needs " + strings.Join(needed, "; and ")
	}
	if found := missingValue.FindStringSubmatch(message); found != nil {
		if flag := flagOf(ctx, found[1]); flag != nil && flag.Target.Kind() != reflect.String &&
			flag.Target.Kind() != reflect.Slice {
			return titleOf(flag) + " needs a value: " + wanted(flag, nil)
		} else if flag != nil {
			return titleOf(flag) + " needs a value: " + helpOf(flag)
		}
	}
	if found := wrongType.FindStringSubmatch(message); found != nil {
		if flag := flagOf(ctx, found[1]); flag != nil {
			return titleOf(flag) + " must be " + wanted(flag, nil) + ", is " + nearest.Quote(found[2])
		}
	}
	return message
}

// flagOf finds a flag of the command that was read last, by its name.
func flagOf(ctx *kong.Context, name string) *kong.Flag {
	for _, flag := range ctx.Flags() {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// titleOf names a flag, with its environment variables.
func titleOf(flag *kong.Flag) string {
	title := "--" + flag.Name
	if names := variablesOf(flag.Value); len(names) > 0 {
		title += " (" + strings.Join(names, ", ") + ")"
	}
	return title
}

// helpOf is the help of a flag without its last full stop.
func helpOf(flag *kong.Flag) string {
	if strings.HasSuffix(flag.Help, "...") {
		return flag.Help
	}
	return strings.TrimSuffix(flag.Help, ".")
}

// needs says which argument of a command is missing, in the words of its help.
func needs(node *kong.Node, argument string) string {
	for _, positional := range node.Positional {
		if positional.Name == argument && positional.Help != "" {
			return node.FullPath() + " needs <" + argument + ">: " + strings.TrimSuffix(positional.Help, ".")
		}
	}
	return node.FullPath() + " needs <" + argument + ">"
}

// lastNode is the command that was read last.
func lastNode(ctx *kong.Context) *kong.Node {
	node := ctx.Model.Node
	for _, part := range ctx.Path {
		if of := part.Node(); of != nil {
			node = of
		}
	}
	return node
}

// flagNames are the flags that a command takes, its own and those of the commands above it.
func flagNames(node *kong.Node) []string {
	var names []string
	for ; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden {
				names = append(names, "--"+flag.Name)
			}
		}
	}
	return names
}

// flagsOf lists the flags of a command, or says where they are listed when a sentence can't hold them.
func flagsOf(node *kong.Node) string {
	if names := flagNames(node); len(names) <= maxFlagsTold {
		return "there are " + nearest.List(names)
	}
	return node.FullPath() + " --help lists all flags"
}

func commandNames(node *kong.Node) []string {
	var names []string
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}
