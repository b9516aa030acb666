package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

// setting is one that a tenant or a namespace can have: its flag, and where it is. One of
// the places is set; what is 0, false or empty there is no setting.
type setting struct {
	flag, usage string
	age         *time.Duration
	number      *int64
	other       *holdPlace
}

// holdPlace is where a part of a hold is.
type holdPlace struct {
	on   *bool
	word *string
	at   *int64 // Unix nanoseconds.
}

// value of the setting; of a word, its length.
func (s setting) value() int64 {
	switch {
	case s.age != nil:
		return int64(*s.age)
	case s.number != nil:
		return *s.number
	case s.other.at != nil:
		return *s.other.at
	case s.other.word != nil:
		return int64(len(*s.other.word))
	case *s.other.on:
		return 1
	}
	return 0
}

// take makes the setting what another one of the same flag is.
func (s setting) take(from setting) {
	switch {
	case s.age != nil:
		*s.age = *from.age
	case s.number != nil:
		*s.number = *from.number
	case s.other.at != nil:
		*s.other.at = *from.other.at
	case s.other.word != nil:
		*s.other.word = *from.other.word
	default:
		*s.other.on = *from.other.on
	}
}

// text is the value as it is typed.
func (s setting) text() string {
	const day = 24 * time.Hour
	switch {
	case s.other != nil && s.other.at != nil:
		return time.Unix(0, *s.other.at).UTC().Format(time.RFC3339)
	case s.other != nil && s.other.word != nil:
		return *s.other.word
	case s.other != nil:
		return strconv.FormatBool(*s.other.on)
	case s.age == nil:
		return strconv.FormatInt(*s.number, 10)
	case *s.age%day == 0:
		return fmt.Sprintf("%dd", *s.age/day)
	case *s.age%time.Hour == 0:
		return fmt.Sprintf("%dh", *s.age/time.Hour)
	case *s.age%time.Minute == 0:
		return strings.TrimSuffix(s.age.String(), "0s")
	default:
		return s.age.String()
	}
}

// tenantSettings are a tenant's, as flags and tables have them.
type tenantSettings struct {
	limits      *cellv1.Limits
	hold        *cellv1.Hold
	keeps, most retention.Policy
}

func readTenant(l *cellv1.Limits) *tenantSettings {
	return &tenantSettings{limits: cmp.Or(l, &cellv1.Limits{}), hold: cmp.Or(l.GetHold(), &cellv1.Hold{}), keeps: retention.Read(l.GetRetention()), most: retention.Read(l.GetRetentionMax())}
}

func (t *tenantSettings) all() []setting {
	l := t.limits
	return slices.Concat([]setting{
		{"payload-bytes-max", "largest payload in `BYTES`; 0 is unlimited", nil, &l.PayloadBytesMax, nil},
		{"streams-max", "open streams and waiting fetches at a time through one proxy; 0 is unlimited", nil, &l.StreamsMax, nil},
		{"enqueue-per-second", "jobs enqueued per second in each namespace; a batch may be larger, and later calls wait for it; 0 is unlimited", nil, &l.EnqueuePerSecond, nil},
		{"enqueue-burst", "jobs that a namespace may enqueue at once after a pause; 0 is those of a second", nil, &l.EnqueueBurst, nil},
		{"open-jobs-max", "jobs in each namespace that haven't ended; 0 is unlimited", nil, &l.OpenJobsMax, nil},
		{"stored-bytes-max", "`BYTES` of payloads and results that each namespace stores; 0 is unlimited", nil, &l.StoredBytesMax, nil},
		{"weight", "share of a node or proxy that is overloaded, relative to other tenants; 0 is 1", nil, &l.Weight, nil},
	}, holdSettings(t.hold), retentionSettings(&t.keeps, "retention-", " unless the namespace says otherwise"),
		retentionSettings(&t.most, "retention-limit-", " at most, whatever namespaces and queues say"))
}

// message is what the cell is told.
func (t *tenantSettings) message() *cellv1.Limits {
	t.limits.Retention, t.limits.RetentionMax = t.keeps.Message(), t.most.Message()
	if t.limits.Hold = t.hold; proto.Size(t.hold) == 0 {
		t.limits.Hold = nil
	}
	return t.limits
}

// holdSettings say what the tenant may not do for now, and why.
func holdSettings(h *cellv1.Hold) []setting {
	return []setting{
		{"hold-dispatch", "start no attempt of the tenant's jobs", nil, nil, &holdPlace{on: &h.Dispatch}},
		{"hold-enqueue", "refuse new jobs; those that follow from existing ones are made", nil, nil, &holdPlace{on: &h.Enqueue}},
		{"hold-limit", "`NAME` of the limit that is the reason, such as jobs_per_month, as the tenant is told", nil, nil, &holdPlace{word: &h.Limit}},
		{"hold-value", "value of that limit; 0 if it has none", nil, &h.Value, nil},
		{"hold-until", "`TIME` when the hold ends by itself, such as 2026-12-01T00:00:00Z; off: not by itself", nil, nil, &holdPlace{at: &h.UntilNs}},
	}
}

// retentionSettings say how long what has ended is kept.
func retentionSettings(p *retention.Policy, prefix, when string) []setting {
	age := func(name, what string, d *time.Duration) setting {
		return setting{prefix + name, fmt.Sprintf("how long %s are kept%s, such as 12h or 7d; off isn't set", what, when), d, nil, nil}
	}
	usage := age("usage", "usage", &p.Usage)
	usage.usage = strings.Replace(usage.usage, "usage are", "usage is", 1)
	return []setting{
		age("completed", "completed jobs", &p.Completed), age("dead", "dead jobs", &p.Dead), age("cancelled", "cancelled jobs", &p.Cancelled),
		age("events", "events", &p.Events), usage,
		{prefix + "finished-max", "most finished jobs of a queue that are kept" + strings.TrimPrefix(when, " at most") + "; 0 isn't set", nil, &p.Max, nil},
		{prefix + "events-bytes-max", "most `BYTES` of events that are kept" + strings.TrimPrefix(when, " at most") + "; 0 isn't set", nil, &p.EventsBytes, nil},
	}
}

// settingFlags gives c a flag for each setting.
func settingFlags(c *cobra.Command, all []setting) {
	for _, s := range all {
		switch f := c.Flags(); {
		case s.age != nil:
			f.Var((*ageOrOff)(s.age), s.flag, s.usage)
		case s.number != nil:
			f.Int64Var(s.number, s.flag, 0, s.usage)
		case s.other.at != nil:
			f.Var((*timeOrOff)(s.other.at), s.flag, s.usage)
		case s.other.word != nil:
			f.StringVar(s.other.word, s.flag, "", s.usage)
		default:
			f.BoolVar(s.other.on, s.flag, false, s.usage)
		}
	}
}

// ageOrOff is an age that can be taken away again.
type ageOrOff retention.Age

// Set implements pflag.Value.
func (a *ageOrOff) Set(text string) error {
	if text == "off" {
		*a = 0
		return nil
	}
	return (*retention.Age)(a).Set(text)
}

func (a *ageOrOff) String() string { return (*retention.Age)(a).String() }

// Type implements pflag.Value.
func (*ageOrOff) Type() string { return "AGE" }

// timeOrOff is a time, in Unix nanoseconds, that can be taken away again.
type timeOrOff int64

// Set implements pflag.Value.
func (t *timeOrOff) Set(text string) error {
	if text == "off" {
		*t = 0
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("is not a time such as 2026-12-01T00:00:00Z: %w", err)
	}
	*t = timeOrOff(at.UnixNano())
	return nil
}

func (t *timeOrOff) String() string {
	if *t == 0 {
		return ""
	}
	return time.Unix(0, int64(*t)).UTC().Format(time.RFC3339)
}

// Type implements pflag.Value.
func (*timeOrOff) Type() string { return "TIME" }

// change takes over what the command line says, and leaves the rest.
func change(c *cobra.Command, given, stored []setting) {
	for i, s := range given {
		if c.Flags().Changed(s.flag) {
			stored[i].take(s)
		}
	}
}

// anyGiven refuses a command line that changes nothing.
func anyGiven(c *cobra.Command, given []setting) error {
	if !slices.ContainsFunc(given, func(s setting) bool { return c.Flags().Changed(s.flag) }) {
		return usagef("say what to change, such as --%s", given[0].flag)
	}
	return nil
}

// within refuses a setting above the tenant's maximum, which would be cut without a word.
func within(own, most []setting) error {
	for i, s := range own {
		if most := most[i]; most.value() != 0 && s.value() > most.value() {
			return usagef("--%s is %s, more than the tenant's maximum, %s", s.flag, s.text(), most.text())
		}
	}
	return nil
}

// writeSettings lists those that are set.
func writeSettings(w io.Writer, all []setting) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range all {
		if s.value() != 0 {
			fmt.Fprintf(t, "  %s\t%s\n", s.flag, s.text())
		}
	}
	_ = t.Flush() // Into memory.
}

func (s *session) tenantCommand(f *adminFlags) *cobra.Command {
	given := readTenant(nil)
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a tenant with a namespace called default", Args: cobra.ExactArgs(1),
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, args []string) error {
			t, err := c.CreateTenant(ctx, args[0], given.message())
			if err != nil {
				return err
			}
			return s.emit(t, func(w io.Writer) { fmt.Fprintf(w, "tenant %s is %s\n", args[0], t.GetId()) })
		}),
	}
	settingFlags(create, given.all())
	return group("tenant", "Create tenants, and show or change their limits and retention", create, s.setTenantCommand(f), s.listTenantsCommand(f))
}

func (s *session) setTenantCommand(f *adminFlags) *cobra.Command {
	given := readTenant(nil)
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a tenant's limits and retention", Args: cobra.ExactArgs(1),
		Long: `Changes what is given, and leaves the rest. It counts at once, also for what is there: what is
older than a new retention is deleted, usually within a minute, and that can't be undone.
Use off for a retention and 0 for a number to take a setting away. A hold ends with
--hold-dispatch=false --hold-enqueue=false --hold-limit "" --hold-value 0 --hold-until off.

Where a control plane manages the cell, this is refused: the plan says what counts.`,
		Example: `  corvo-cloud cell tenant set acme --weight 3 --retention-completed 14d $F
  corvo-cloud cell tenant set acme --retention-completed off $F`,
	}
	settingFlags(c, given.all())
	c.PreRunE = func(c *cobra.Command, _ []string) error { return anyGiven(c, given.all()) }
	c.RunE = f.with(func(ctx context.Context, client *celladmin.Client, args []string) error {
		var now *tenantSettings
		t, err := client.ChangeTenant(ctx, args[0], func(t *cellv1.Tenant) error {
			now = readTenant(t.GetLimits())
			change(c, given.all(), now.all())
			t.Limits = now.message()
			return nil
		})
		if err != nil {
			return err
		}
		s.everywhere(ctx, client)
		return s.emit(t, func(w io.Writer) {
			fmt.Fprintf(w, "tenant %s is set:\n", args[0])
			writeSettings(w, now.all())
		})
	})
	return c
}

func (s *session) listTenantsCommand(f *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the tenants with their limits and retention", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			state, err := c.State(ctx)
			if err != nil {
				return err
			}
			live := &cellv1.State{Index: state.GetIndex(), Tenants: slices.DeleteFunc(state.GetTenants(), (*cellv1.Tenant).GetDeleted)}
			return s.emit(live, func(w io.Writer) {
				for _, t := range live.GetTenants() {
					fmt.Fprintf(w, "%s  %s\n", t.GetName(), t.GetId())
					writeSettings(w, readTenant(t.GetLimits()).all())
				}
			})
		}),
	}
}

const inNamespace = " in this namespace"

func (s *session) namespaceCommand(f *adminFlags) *cobra.Command {
	return group("namespace", "Create namespaces, and show or change their retention", s.createNamespaceCommand(f), s.setNamespaceCommand(f), s.listNamespacesCommand(f))
}

// ofTenant gives a command its --tenant.
func ofTenant(c *cobra.Command, tenant *string) {
	c.Flags().StringVar(tenant, "tenant", "", "`NAME` of the tenant")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *tenant == "" {
			return usagef("--tenant is required")
		}
		return nil
	}
}

func (s *session) createNamespaceCommand(f *adminFlags) *cobra.Command {
	var tenant string
	var keeps retention.Policy
	own := retentionSettings(&keeps, "retention-", inNamespace)
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a namespace of a tenant", Args: cobra.ExactArgs(1),
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, args []string) error {
			state, err := c.State(ctx)
			if err != nil {
				return err
			}
			t, err := celladmin.FindTenant(state, tenant)
			if err != nil {
				return err
			}
			if err := withinTenant(t, own); err != nil {
				return err
			}
			n, err := c.CreateNamespace(ctx, tenant, args[0], keeps.Message())
			if err != nil {
				return err
			}
			return s.emit(n, func(w io.Writer) { fmt.Fprintf(w, "namespace %s is %s\n", args[0], n.GetId()) })
		}),
	}
	ofTenant(c, &tenant)
	settingFlags(c, own)
	return c
}

func withinTenant(t *cellv1.Tenant, own []setting) error {
	most := retention.Read(t.GetLimits().GetRetentionMax())
	return within(own, retentionSettings(&most, "", ""))
}

func (s *session) setNamespaceCommand(f *adminFlags) *cobra.Command {
	var tenant string
	var keeps retention.Policy
	given := retentionSettings(&keeps, "retention-", inNamespace)
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a namespace's retention", Args: cobra.ExactArgs(1),
		Long: `Changes what is given, and leaves the rest. It counts at once, also for what is there: what is
older than a new retention is deleted, usually within a minute, and that can't be undone.
Use off, or 0 for a number, for as long as the tenant's retention says.`,
		Example: `  corvo-cloud cell namespace set default --tenant acme --retention-completed 1d $F`,
	}
	ofTenant(c, &tenant)
	settingFlags(c, given)
	required := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error { return cmp.Or(required(c, args), anyGiven(c, given)) }
	c.RunE = f.with(func(ctx context.Context, client *celladmin.Client, args []string) error {
		var own []setting
		n, err := client.ChangeNamespace(ctx, tenant, args[0], func(t *cellv1.Tenant, n *cellv1.Namespace) error {
			now := retention.Read(n.GetRetention())
			own = retentionSettings(&now, "retention-", "")
			change(c, given, own)
			n.Retention = now.Message()
			return withinTenant(t, own)
		})
		if err != nil {
			return err
		}
		s.everywhere(ctx, client)
		return s.emit(n, func(w io.Writer) {
			fmt.Fprintf(w, "namespace %s is set:\n", args[0])
			writeSettings(w, own)
		})
	})
	return c
}

func (s *session) listNamespacesCommand(f *adminFlags) *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "list", Short: "Show a tenant's namespaces with their retention", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			state, err := c.State(ctx)
			if err != nil {
				return err
			}
			t, err := celladmin.FindTenant(state, tenant)
			if err != nil {
				return err
			}
			live := &cellv1.State{Index: state.GetIndex(), Namespaces: slices.DeleteFunc(state.GetNamespaces(), func(n *cellv1.Namespace) bool {
				return n.GetDeleted() || n.GetTenantId() != t.GetId()
			})}
			return s.emit(live, func(w io.Writer) {
				for _, n := range live.GetNamespaces() {
					fmt.Fprintf(w, "%s  %s\n", n.GetName(), n.GetId())
					own := retention.Read(n.GetRetention())
					writeSettings(w, retentionSettings(&own, "retention-", ""))
				}
			})
		}),
	}
	ofTenant(c, &tenant)
	return c
}
