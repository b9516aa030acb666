package cli

import (
	"errors"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// argumentsFit compares what was given with what the usage line asks for, and says which
// argument is missing or too much.
func argumentsFit(c *cobra.Command, args []string) error {
	var needed []string
	most := 0
	for _, word := range strings.Fields(c.Use)[1:] {
		if word == "--" { // The rest are another program's arguments.
			return nil
		}
		if strings.HasPrefix(word, "-") { // The rest are flags.
			break
		}
		most++
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
		if !strings.HasPrefix(word, "[") {
			needed = append(needed, strings.TrimSuffix(word, "..."))
		}
	}
	var wrong *Failure
	switch {
	case len(args) < len(needed):
		wrong = usagef("%s needs %s", c.CommandPath(), strings.Join(needed[len(args):], " and "))
	case len(args) > most:
		wrong = usagef("%q is one argument too many for %s", args[most], c.CommandPath())
	default:
		return nil
	}
	wrong.Fix = "use `" + c.UseLine() + "`; see --help for examples"
	return wrong
}

// flagFailure says of a flag's value what it should have been.
func flagFailure(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return usageOf(err)
	}
	want, ok := map[string]string{
		"duration": "a duration such as 90s, 5m or 1h30m", "int": "a whole number", "int64": "a whole number",
		"float64": "a number such as 0.5", "bool": "true or false",
	}[bad.GetFlag().Value.Type()]
	if !ok {
		return usageOf(err)
	}
	return usage("--"+bad.GetFlag().Name, bad.GetValue(), want)
}

// usageOf is an error of the parser that says enough.
func usageOf(err error) *Failure {
	f := usagef("%v", err)
	f.Fix = "see --help for flags and examples"
	return f
}

// parserFailure reads the errors of cobra that have no type and pass no function of ours.
func parserFailure(err error) (*Failure, bool) {
	if strings.HasPrefix(err.Error(), "if any flags in the group ") {
		return usageOf(err), true
	}
	names, ok := strings.CutPrefix(err.Error(), "required flag(s) ")
	if !ok {
		return nil, false
	}
	names = strings.TrimSuffix(names, " not set")
	f := usagef("--%s is required", strings.ReplaceAll(strings.ReplaceAll(names, `", "`, " and --"), `"`, ""))
	f.Fix = "see --help for flags and examples"
	return f, true
}
