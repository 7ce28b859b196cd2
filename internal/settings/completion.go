package settings

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"
)

// Completion is the command that writes what a shell needs to complete a program's command line.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts tell a shell to ask PROGRAM, with the line so far in COMP_LINE. See [Complete].
var completionScripts = map[string]string{
	"bash": `# Completes NAME in bash. Load it with: source <(NAME completion bash)
complete -o default -o bashdefault -C "PROGRAM" NAME
`,
	"zsh": `# Completes NAME in zsh. Load it with: source <(NAME completion zsh)
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
complete -o default -o bashdefault -C "PROGRAM" NAME
`,
	"fish": `# Completes NAME in fish. Load it with: NAME completion fish | source
function __complete_NAME
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct); and set COMP_LINE "$COMP_LINE "
    set -l found (PROGRAM)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -f -c NAME -a "(__complete_NAME)"
`,
}

// Run writes the script of the shell.
func (c *Completion) Run(ctx *kong.Context) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	quoted := "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	script := strings.NewReplacer("PROGRAM", quoted, "NAME", ctx.Model.Name).Replace(completionScripts[c.Shell])
	_, err = fmt.Fprint(ctx.Stdout, script)
	return err
}

// CompletionCommands are commands that a program has besides those of its parser, with the words that may follow each.
type CompletionCommands map[string][]string

// Complete writes what may follow on a command line if a shell asks for it, in COMP_LINE, and reports whether it did.
// It must come before anything that could refuse to start.
func Complete(parser *kong.Kong, more CompletionCommands) (asked bool, err error) {
	if os.Getenv("COMP_LINE") == "" {
		return false, nil
	}
	command, err := kongcompletion.Command(parser, kongcompletion.WithPredictors(predictors()))
	if err != nil {
		return false, fmt.Errorf("describe the command line to a shell: %w", err)
	}
	if of := parser.Model.DefaultCmd; of != nil {
		command.Flags = command.Sub[of.Name].GlobalFlags // nobody names the default command
	}
	for name, words := range more {
		command.Sub[name] = complete.Command{Args: complete.PredictSet(words...)}
	}
	completion := complete.New(parser.Model.Name, command)
	completion.Out = parser.Stdout
	return completion.Complete(), nil
}

// predictors are the values of flags that are a choice, by the name in the flag's tag predictor.
func predictors() map[string]complete.Predictor {
	var channels []string
	for _, channel := range (Channels{}).All() {
		channels = append(channels, string(channel.Name))
	}
	return map[string]complete.Predictor{
		"roles":      complete.PredictSet(string(RoleAPI), string(RoleWorker), string(RoleOps)),
		"levels":     complete.PredictSet(logLevels...),
		"formats":    complete.PredictSet(logFormats...),
		"channels":   complete.PredictSet(channels...),
		"priorities": complete.PredictSet("critical", "high", "normal", "low"),
	}
}
