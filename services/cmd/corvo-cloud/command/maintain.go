package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

const databaseUsage = "`URL`: sqlite:FILE or postgres://… (env CORVO_DATABASE keeps a password out of the process list)"

var errNoDatabase = usagef("--database is required: sqlite:FILE or postgres://…")

// maintainFlags are those of commands that work on the database beside running processes.
type maintainFlags struct {
	database      string
	masterKeyFile string
}

func (f *maintainFlags) add(s *session, c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.database, "database", "", databaseUsage)
	fs.StringVar(&f.masterKeyFile, "master-key-file", "", "`FILE` with the key that encrypts secrets in the database; older keys follow, one per line")
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT`: text or json")
}

func (s *session) maintenance(f maintainFlags) (server.Maintenance, error) {
	database := s.orEnv(f.database, envDatabase)
	if database == "" {
		return server.Maintenance{}, errNoDatabase
	}
	keys, err := readMasterKeys(f.masterKeyFile)
	return server.Maintenance{Database: database, MasterKeys: keys, Logger: s.logger()}, err
}

func (s *session) rotateTokenKeysCommand() *cobra.Command {
	var f maintainFlags
	var wait time.Duration
	c := &cobra.Command{
		Use:   "rotate-token-keys",
		Short: "Replace the keys that sign browsers' tokens, now",
		Long: `Creates new keys for the tokens with which the console reads and changes jobs, and ends
the old ones: use it if a signing key may have leaked. Run it while the control plane
runs. Every proxy refuses tokens of the old keys within a second, and open consoles get
new tokens on their own. Nobody is signed out.

It waits until every proxy has the new keys. If no control plane is running, it ends
with exit code 7, and the next one to start finishes the rotation.`,
		Example: `  corvo-cloud control rotate-token-keys --database postgres://corvo@db/corvo --master-key-file control.key
  corvo-cloud control rotate-token-keys --database sqlite:.run/up/control.db --master-key-file .run/up/control.key`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.rotateTokenKeys(c.Context(), f, wait) },
	}
	f.add(s, c)
	c.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the proxies")
	return c
}

func (s *session) rotateTokenKeys(ctx context.Context, f maintainFlags, wait time.Duration) error {
	m, err := s.maintenance(f)
	if err != nil {
		return err
	}
	r, err := server.RotateTokenKeys(ctx, m, wait)
	if err != nil {
		return serverFailure("couldn't rotate the token keys", err)
	}
	if err := s.print(r, func() {
		for _, id := range r.Old {
			fmt.Fprintf(s.proc.Stdout, "ended %s\n", id)
		}
		for _, id := range r.New {
			fmt.Fprintf(s.proc.Stdout, "new %s\n", id)
		}
		if r.Carried {
			fmt.Fprintln(s.proc.Stdout, "every proxy refuses tokens of the old keys")
		}
	}); err != nil || r.Carried {
		return err
	}
	return &Failure{Exit: ExitTimeout, Code: "NOT_CARRIED", What: "the keys are rotated, but some proxies may not have the new ones yet",
		Why: fmt.Sprintf("no control plane confirmed it within %v", wait), Fix: "start the control plane, or check its /readyz; don't rotate again"}
}

// tenantFailure is why something was not done to a tenant.
func tenantFailure(what, tenant string, err error) error {
	switch {
	case errors.Is(err, server.ErrRefused):
		return &Failure{Exit: ExitUsage, Code: "REFUSED", What: what, Why: strings.TrimPrefix(err.Error(), server.ErrRefused.Error()+": ")}
	case errors.Is(err, server.ErrNoTenant):
		return &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: fmt.Sprintf("there is no tenant %q", tenant), Fix: "`corvo-cloud control tenants` lists them"}
	}
	return serverFailure(what, err)
}

func (s *session) deleteTenantCommand() *cobra.Command {
	var database, confirm string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "delete-tenant TENANT",
		Short: "Delete a tenant with everything in it",
		Long: `Deletes a tenant: its keys, tokens, trusts and directories open nothing from then on,
nobody is a member of it, open streams end, and its nodes erase its jobs within minutes.
It can't be undone. Its name and domains are free for others. Run it while the control plane runs.
It waits until the tenant's cell has ended it.

The control plane's records of it stay in the database, its audit log among them. The
accounts of its members stay, too: they may be members of other tenants.

If no control plane is running, it ends with exit code 7, and the next one to start
finishes the deletion. Until then jobs of the tenant still run.`,
		Example: `  corvo-cloud control delete-tenant acme --confirm acme --database postgres://corvo@db/corvo`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if confirm != args[0] {
				return usagef("this can't be undone: repeat the tenant's name with --confirm %s", args[0])
			}
			return s.deleteTenant(c.Context(), s.orEnv(database, envDatabase), args[0], wait)
		},
	}
	fs := c.Flags()
	fs.StringVar(&database, "database", "", databaseUsage)
	fs.StringVar(&confirm, "confirm", "", "the tenant's `NAME`, once more")
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT`: text or json")
	fs.DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the cell")
	return c
}

func (s *session) deleteTenant(ctx context.Context, database, tenant string, wait time.Duration) error {
	if database == "" {
		return errNoDatabase
	}
	r, err := server.DeleteTenant(ctx, server.Maintenance{Database: database, Logger: s.logger()}, tenant, wait)
	if err != nil {
		return tenantFailure("couldn't delete the tenant", tenant, err)
	}
	if err := s.print(r, func() { fmt.Fprintf(s.proc.Stdout, "tenant %s (%s) is deleted\n", r.Tenant, r.TenantID) }); err != nil || r.Carried {
		return err
	}
	return &Failure{Exit: ExitTimeout, Code: "NOT_CARRIED", What: "the tenant is deleted, but its cell may still serve it",
		Why: fmt.Sprintf("no control plane confirmed it within %v", wait), Fix: "start the control plane, or check its /readyz; it finishes the deletion by itself"}
}

func (s *session) resealCommand() *cobra.Command {
	var f maintainFlags
	c := &cobra.Command{
		Use:   "reseal",
		Short: "Encrypt everything with a new master key",
		Long: `Reads every secret in the database that an older master key encrypts, and encrypts it
with the first key of --master-key-file. Run it while the control plane runs with the
same file. You can interrupt it and run it again: it continues where it stopped.

At the end it searches the whole database, and says for each older key whether you can
remove its line. It ends with exit code 5 while one is still needed, and changes nothing
while a running control plane still encrypts with another key.

To change the master key: add a new line below the old one and restart every control
plane; move the new line to the top and restart them again; run this; remove the old
line and restart them once more. A single control plane can start with the second step.`,
		Example: `  corvo-cloud control reseal --database postgres://corvo@db/corvo --master-key-file control.key`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.reseal(c.Context(), f) },
	}
	f.add(s, c)
	return c
}

func (s *session) reseal(ctx context.Context, f maintainFlags) error {
	m, err := s.maintenance(f)
	if err != nil {
		return err
	}
	total := 0
	r, err := server.Reseal(ctx, m, func(rows int) { total += rows })
	var inUse *server.MasterKeyInUseError
	if errors.As(err, &inUse) {
		return &Failure{Exit: ExitConflict, Code: "MASTER_KEY_IN_USE", What: "no old key can be removed yet", Why: err.Error(),
			Fix: "restart every control plane with the same --master-key-file as this command, wait 30 s, and run this again"}
	}
	if err != nil {
		return serverFailure(fmt.Sprintf("stopped early: %d rows are encrypted with the new key; run this again to continue", total), err)
	}
	if err := s.print(r, func() { s.printReseal(r) }); err != nil || r.Removable() {
		return err
	}
	return &Failure{Exit: ExitConflict, Code: "MASTER_KEY_NEEDED", What: "an old key is still needed",
		Why: "some of the database can only be read with it", Fix: "keep its line in --master-key-file and run this again; report what stays in the list"}
}

func (s *session) printReseal(r server.ResealReport) {
	fmt.Fprintf(s.proc.Stdout, "encrypted %d rows with master key %s%s\n", r.Total(), r.KeyID, counted(r.Resealed))
	if len(r.Unreadable) > 0 {
		fmt.Fprintf(s.proc.Stdout, "damaged, could not be read%s\n", counted(r.Unreadable))
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintf(s.proc.Stdout, "encrypted with keys that are not in the file%s\n", counted(r.Unknown))
	}
	for _, k := range r.OldKeys {
		if k.Removable {
			fmt.Fprintf(s.proc.Stdout, "old key %s: nothing is left that needs it; you can remove its line\n", k.KeyID)
		} else {
			fmt.Fprintf(s.proc.Stdout, "old key %s: still needed%s\n", k.KeyID, counted(k.Left))
		}
	}
}

// counted lists what was counted, behind a colon.
func counted(by map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// print writes a report as JSON, or as text prints it.
func (s *session) print(report any, text func()) error {
	if s.output == outputJSON {
		return json.NewEncoder(s.proc.Stdout).Encode(report)
	}
	text()
	return nil
}
