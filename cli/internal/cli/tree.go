package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// verb is a command, and where it hangs: short at the root, and under its noun.
type verb struct {
	root string // Its name at the root; "" keeps it under its noun.
	noun string // Such as "job get"; "" if it has no noun.

	args, short, long, example string // As its help shows them. args also says how many there must be.

	flags func(c *cobra.Command) // nil if it has none.
	run   func(c *cobra.Command, args []string) error
}

// group is a part of the root's help.
type group struct {
	id, title string
	verbs     []verb
}

func (s *session) groups() []group {
	return []group{
		{"jobs", "Jobs:", s.jobVerbs()},
		{"worker", "Workers:", []verb{s.workVerb(), s.fetchVerb(), s.ackVerb(), s.failVerb(), s.heartbeatVerb(), s.workersVerb()}},
		{"queues", "Queues:", s.queueVerbs()},
		{"groups", "Schedules, batches and chains:", slices.Concat(s.scheduleVerbs(), s.batchVerbs(), s.chainVerbs())},
		{"money", "Model usage and cost:", s.moneyVerbs()},
		{"cloud", "Corvo Cloud:", slices.Concat([]verb{s.signupVerb(), s.loginVerb(), s.logoutVerb(), s.whoamiVerb()}, s.profileVerbs(), s.sessionVerbs())},
		{"billing", "Billing:", slices.Concat(s.planVerbs(), s.billingVerbs(), s.countedVerbs(), s.invoiceVerbs(), s.spendLimitVerbs())},
		{"access", "Access:", slices.Concat(s.accessVerbs(), s.roleVerbs(), s.bindingVerbs(), s.serviceAccountVerbs(), s.trustVerbs(), []verb{s.exchangeVerb()}, s.userGroupVerbs(), s.memberVerbs(), s.keyVerbs(), s.ssoVerbs(), s.domainVerbs(), s.directoryVerbs(), s.policyVerbs())},
		{"server", "Server:", s.serverVerbs()},
		{"nouns", "Commands by noun:", nil},
	}
}

// nouns are the commands that only hold others, with the group in which the root shows them.
func nouns() []*cobra.Command {
	return []*cobra.Command{
		{Use: "job", GroupID: "nouns", Short: "Manage jobs"},
		{Use: "queue", GroupID: "nouns", Short: "Manage queues"},
		{Use: "worker", GroupID: "nouns", Short: "Manage workers"},
		{Use: "cluster", GroupID: "nouns", Short: "Manage the cluster"},
		{Use: "schedule", GroupID: "groups", Short: "Manage cron schedules"},
		{Use: "batch", GroupID: "groups", Short: "Manage batches: groups of jobs with a callback when all are finished"},
		{Use: "chain", GroupID: "groups", Short: "Manage chains: jobs that run one after another"},
		{Use: "profile", GroupID: "cloud", Short: "Manage profiles: the tenants that this command line works with"},
		{Use: "session", Aliases: []string{"sessions"}, GroupID: "cloud", Short: "Manage sessions: where you are signed in"},
		{Use: "plan", Aliases: []string{"plans"}, GroupID: "billing", Short: "See and change the plan, and where its limits stand"},
		{Use: "billing", GroupID: "billing", Short: "Pay for a plan, and choose who gets emails about it"},
		{Use: "invoice", Aliases: []string{"invoices"}, GroupID: "billing", Short: "See invoices, and preview those of months that aren't over"},
		{Use: "spend-limit", GroupID: "billing", Short: "Limit what the tenant spends in a month"},
		{Use: "access", GroupID: "access", Short: "Explain and review who may do what"},
		{Use: "roles", Aliases: []string{"role"}, GroupID: "access", Short: "Manage roles: named sets of permissions"},
		{Use: "bindings", Aliases: []string{"binding"}, GroupID: "access", Short: "Manage role bindings: who has which role where"},
		{Use: "service-accounts", Aliases: []string{"service-account"}, GroupID: "access", Short: "Manage service accounts: machines that own keys"},
		{Use: "trusts", Aliases: []string{"trust"}, GroupID: "access", Short: "Manage trusts: whose tokens are exchanged for keys of a service account"},
		{Use: "token", GroupID: "access", Short: "Exchange a token of a CI job or pod for a key"},
		{Use: "groups", Aliases: []string{"group"}, GroupID: "access", Short: "Manage groups of members"},
		{Use: "members", Aliases: []string{"member"}, GroupID: "access", Short: "Manage members of the tenant"},
		{Use: "invitations", Aliases: []string{"invitation"}, GroupID: "access", Short: "Manage invitations to the tenant"},
		{Use: "keys", Aliases: []string{"key"}, GroupID: "access", Short: "Manage API keys of the tenant"},
		{Use: "sso", GroupID: "access", Short: "Manage single sign-on by your identity provider"},
		{Use: "directory", GroupID: "access", Short: "Manage directory sync (SCIM) of SSO connections"},
		{Use: "domains", Aliases: []string{"domain"}, GroupID: "access", Short: "Manage domains, whose people sign in through your identity provider"},
		{Use: "policy", GroupID: "access", Short: "How people sign in to the tenant, and what its keys must be"},
		{Use: "budget", GroupID: "money", Short: "Manage budgets: limits on model cost"},
		{Use: "approval-policy", GroupID: "money", Short: "Manage approval policies: which jobs need approval"},
	}
}

// mount hangs every verb in the tree.
func (s *session) mount(root *cobra.Command) {
	of := map[string]*cobra.Command{}
	for _, noun := range nouns() {
		noun.Args, noun.RunE = noSuchCommand, root.RunE
		of[noun.Use] = noun
		root.AddCommand(noun)
	}
	for _, g := range s.groups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, v := range g.verbs {
			if v.root != "" {
				c := s.command(v, v.root)
				c.GroupID = g.id
				root.AddCommand(c)
				if of[v.root] == nil {
					of[v.root] = c // Verbs after it may hang under it.
				}
			}
			if noun, name, ok := strings.Cut(v.noun, " "); ok {
				of[noun].AddCommand(s.command(v, name))
			}
		}
	}
}

func (s *session) command(v verb, name string) *cobra.Command {
	c := &cobra.Command{
		Use: strings.TrimSpace(name + " " + v.args), Short: v.short, Long: v.long, Example: v.example, Args: argumentsFit, RunE: v.run,
	}
	switch {
	case strings.HasPrefix(v.args, "QUEUE..."):
		c.ValidArgsFunction = s.completeQueues
	case strings.HasPrefix(v.args, "QUEUE"):
		c.ValidArgsFunction = s.completeFirstQueue
	}
	if v.flags != nil {
		v.flags(c)
	}
	return c
}

// helpTemplate puts examples first: most people copy one and change it.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasExample}}Examples:
{{.Example}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if not .AllChildCommandsHaveGroup}}

More:{{range $cmds}}{{if (and (eq .GroupID "") .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if not .HasParent}}

Exit codes:
  0 ok · 1 failed · 2 usage · 3 not found · 4 not signed in or not allowed · 5 conflict ·
  6 limit reached · 7 no answer in time · 8 some items failed{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" shows examples of a command.{{end}}
`

// polishHelp sets the templates and fills the mounted path into the examples.
func polishHelp(root *cobra.Command) {
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
	root.InitDefaultHelpCmd()
	shellCompletion(root)
	walk(root, func(c *cobra.Command) {
		c.DisableFlagsInUseLine = true
		c.SuggestionsMinimumDistance = 2
		c.Example = strings.ReplaceAll(strings.TrimRight(c.Example, "\n "), "{cmd}", c.CommandPath())
		c.Long = strings.ReplaceAll(c.Long, "{cmd}", c.CommandPath())
		c.Flags().SortFlags = false
		c.PersistentFlags().SortFlags = false
	})
}

// shellCompletion mounts cobra's command, which answers an unknown shell with its help.
func shellCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.GroupID = "server"
		c.Short = "Print a completion script for bash, zsh, fish or powershell"
		c.Args = func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			f := usagef("%q isn't a supported shell", args[0])
			f.Fix = "use bash, zsh, fish or powershell"
			return f
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range c.Commands() {
			shell.Args = argumentsFit
		}
	}
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		walk(child, visit)
	}
}

// completeQueues offers the names of the server's queues; it stays silent when
// the server cannot be asked, because a completion must not print errors.
func (s *session) completeQueues(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	s.timeout = completionTimeout
	_, queues, _, err := queueTable().read(c.Context(), s, 0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, q := range queues {
		if strings.HasPrefix(q.Name, prefix) {
			names = append(names, q.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (s *session) completeFirstQueue(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.completeQueues(c, args, prefix)
}

// completeFlag names the flag's completion; a flag that does not exist is a bug.
func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

func completeWords[W ~string](c *cobra.Command, flag string, words ...W) {
	completeFlag(c, flag, cobra.FixedCompletions(texts(words), cobra.ShellCompDirectiveNoFileComp))
}

// wordFlag is a flag that takes one of the words of the API. The server checks which: it
// may know more. %s in its help is the list.
func wordFlag[W ~string](c *cobra.Command, into *W, flag, help string, words []W) {
	c.Flags().Var(word[W]{into}, flag, strings.Replace(help, "%s", oneOf(words), 1))
	completeWords(c, flag, words...)
}

// word is the value of a wordFlag, for the parser.
type word[W ~string] struct{ into *W }

func (v word[W]) String() string { return string(*v.into) }
func (v word[W]) Type() string   { return "string" }

func (v word[W]) Set(text string) error {
	*v.into = W(text)
	return nil
}

func texts[W ~string](words []W) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// oneOf is words as a sentence lists them: a, b or c.
func oneOf[W ~string](words []W) string {
	last := len(words) - 1
	return strings.Join(texts(words[:last]), ", ") + " or " + string(words[last])
}
