package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// mount hangs every verb in the tree: short at the root, and under its noun.
func (s *session) mount(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "worker", Title: "Workers:"},
		&cobra.Group{ID: "queues", Title: "Queues:"},
		&cobra.Group{ID: "groups", Title: "Schedules, batches and chains:"},
		&cobra.Group{ID: "money", Title: "Model usage and cost:"},
		&cobra.Group{ID: "cloud", Title: "Corvo Cloud:"},
		&cobra.Group{ID: "server", Title: "Server:"},
		&cobra.Group{ID: "nouns", Title: "Commands by noun:"},
	)
	add(root, "jobs", s.enqueueCommand("enqueue"), s.enqueueBatchCommand("enqueue-batch"), s.jobsCommand("jobs"), s.inspectCommand("inspect"), s.whyCommand("why"),
		s.retryCommand("retry"), s.cancelCommand("cancel"), s.deleteCommand("delete"), s.moveCommand("move"), s.deadCommand("dead"),
		s.heldCommand("held"), s.holdCommand("hold"), s.approveCommand("approve"), s.rejectCommand("reject"),
		s.iterationsCommand("iterations"), s.replayCommand("replay"), s.bulkCommand("bulk"))
	add(root, "worker", s.workCommand("work"), s.fetchCommand("fetch"), s.ackCommand("ack"), s.failCommand("fail"),
		s.heartbeatCommand("heartbeat"), s.workersCommand("workers"))
	add(root, "queues", s.queuesCommand("queues"), s.pauseCommand("pause"), s.resumeCommand("resume"), s.drainCommand("drain"),
		s.clearCommand("clear"), s.requeueCommand("requeue"), s.queueDeleteCommand("destroy"))
	add(root, "groups", s.scheduleNoun(), s.batchNoun(), s.chainNoun())
	add(root, "money", s.usageCommand("usage"), s.budgetNoun(), s.policyNoun())
	add(root, "cloud", s.signupCommand("signup"), s.whoamiCommand("whoami"))
	add(root, "server", s.serverCommand(), s.benchCommand(), s.conformanceCommand(), s.statusCommand("status"), s.auditCommand("audit"), s.versionCommand(), s.apiCommand())
	add(root, "nouns", s.jobNoun(), s.queueNoun(), s.workerNoun(), s.clusterNoun())
}

func (s *session) jobNoun() *cobra.Command {
	return noun("job", "Manage jobs", s.enqueueCommand("enqueue"), s.enqueueBatchCommand("enqueue-batch"), s.jobsCommand("list"), s.inspectCommand("get"), s.whyCommand("why"),
		s.retryCommand("retry"), s.cancelCommand("cancel"), s.deleteCommand("delete"), s.fetchCommand("fetch"), s.ackCommand("ack"),
		s.failCommand("fail"), s.heartbeatCommand("heartbeat"), s.moveCommand("move"), s.deadCommand("dead"), s.heldCommand("held"),
		s.holdCommand("hold"), s.approveCommand("approve"), s.rejectCommand("reject"), s.iterationsCommand("iterations"), s.replayCommand("replay"),
		s.bulkCommand("bulk"))
}

func (s *session) queueNoun() *cobra.Command {
	return noun("queue", "Manage queues", s.queuesCommand("list"), s.queueGetCommand("get"), s.queueSetCommand("set"),
		s.queueLimitCommand("limit"), s.queueThrottleCommand("throttle"), s.pauseCommand("pause"), s.resumeCommand("resume"),
		s.drainCommand("drain"), s.clearCommand("clear"), s.requeueCommand("requeue"), s.queueDeleteCommand("delete"))
}

func (s *session) workerNoun() *cobra.Command {
	return noun("worker", "Manage workers", s.workCommand("run"), s.workersCommand("list"))
}

func (s *session) clusterNoun() *cobra.Command {
	return noun("cluster", "Manage the cluster", s.statusCommand("status"))
}

func noun(word, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: word, Short: short, Args: noSuchCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(verbs...)
	return c
}

func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
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
		politely(c)
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
	a, err := s.api()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.timeout = completionTimeout
	rows, _, err := queueTable().read(c.Context(), a, 0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	queues, err := decodeAll[wire.Queue](a, rows)
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
