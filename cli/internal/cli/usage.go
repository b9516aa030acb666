package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// politely lets a command say itself which of its arguments is missing or too much.
func politely(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		var f *Failure
		if err == nil || errors.As(err, &f) {
			return err
		}
		f = usagef("%s", wrongArguments(c, args))
		f.Fix = "use `" + c.UseLine() + "`; see --help for examples"
		return f
	}
}

// wrongArguments compares what was given with what the usage line asks for.
func wrongArguments(c *cobra.Command, args []string) string {
	var needed []string
	most := 0
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") { // The rest are flags, or another program's arguments.
			break
		}
		most++
		if !strings.HasPrefix(word, "[") {
			needed = append(needed, strings.TrimSuffix(word, "..."))
		}
	}
	switch {
	case len(args) < len(needed):
		return c.CommandPath() + " needs " + strings.Join(needed[len(args):], " and ")
	case len(args) > most:
		return fmt.Sprintf("%q is one argument too many for %s", args[most], c.CommandPath())
	}
	return "the arguments don't fit " + c.CommandPath()
}

// flagFailure says of a flag's value what it should have been.
func flagFailure(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	want, ok := map[string]string{
		"duration": "a duration such as 90s, 5m or 1h30m", "int": "a whole number", "int64": "a whole number",
		"float64": "a number such as 0.5", "bool": "true or false",
	}[bad.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return usage("--"+bad.GetFlag().Name, bad.GetValue(), want)
}

// missingFlag reads the one error of cobra that has no type.
func missingFlag(err error) (*Failure, bool) {
	names, ok := strings.CutPrefix(err.Error(), "required flag(s) ")
	if !ok {
		return nil, false
	}
	names = strings.TrimSuffix(names, " not set")
	f := usagef("--%s is required", strings.ReplaceAll(strings.ReplaceAll(names, `", "`, " and --"), `"`, ""))
	f.Fix = "see --help for flags and examples"
	return f, true
}
