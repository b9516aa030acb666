package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// The tenant's audit log, which the control plane has. `corvo audit` itself lists what a
// cell has of one namespace.

const auditPage = 1000

type auditFlags struct {
	endpoint, tenant, after, before  string
	actor, action, target, namespace string
	limit                            int
	format, file                     string
	keys                             []string
}

func (f *auditFlags) common(c *cobra.Command) {
	endpointFlag(c, &f.endpoint)
	c.Flags().StringVar(&f.tenant, "tenant", "", "`NAME` of the tenant, if you are a member of several")
}

func (f *auditFlags) times(c *cobra.Command) {
	c.Flags().StringVar(&f.after, "after", "", "only since this `TIME`: 2026-11-22T14:43:15Z, 2026-11-22, or 24h and 30d for so long ago")
	c.Flags().StringVar(&f.before, "before", "", "only before this `TIME`")
}

func (s *session) auditVerbs() []verb {
	var l, e, v, k auditFlags
	return []verb{
		s.auditVerb(),
		{
			noun: "audit list", short: "List who changed what in the tenant, newest first",
			long:    "Lists the tenant's audit log: settings, members, keys, sign-ins, and what people and keys did\nto queues and jobs. Filters are combined.",
			example: "  {cmd}\n  {cmd} --action key --after 7d\n  {cmd} --actor usr_01JD0Z5W6T8RXVQ4K2M3N7P9SB --limit 0 -o jsonl",
			flags: func(c *cobra.Command) {
				l.common(c)
				l.times(c)
				fs := c.Flags()
				fs.StringVar(&l.actor, "actor", "", "only of this user or key `ID`")
				fs.StringVar(&l.action, "action", "", "only actions that begin with `TEXT`, such as key or key.create")
				fs.StringVar(&l.target, "target", "", "only about this `ID`")
				fs.StringVar(&l.namespace, "of-namespace", "", "only in the namespace with this `NAME` or id")
				limitFlag(c, &l.limit)
			},
			run: func(c *cobra.Command, _ []string) error { return s.auditList(c.Context(), &l) },
		},
		{
			noun: "audit export", short: "Write the tenant's audit log as JSON lines",
			long: `Writes the tenant's audit log in the order in which it was written. In the native format,
the file proves itself: corvo audit verify finds every change, removal and insertion, without a
server. The format ocsf is for tools that read the Open Cybersecurity Schema Framework.`,
			example: "  {cmd} --output-file audit.ndjson\n  {cmd} --after 30d --output-file november.ndjson\n  {cmd} --format ocsf | vector",
			flags: func(c *cobra.Command) {
				e.common(c)
				e.times(c)
				c.Flags().StringVar(&e.format, "format", "native", "`FORMAT` of the lines: native or ocsf")
				completeWords(c, "format", "native", "ocsf")
				c.Flags().StringVar(&e.file, "output-file", "-", "write to `FILE`, which must not exist; - is stdout")
			},
			run: func(c *cobra.Command, _ []string) error { return s.auditExport(c.Context(), &e) },
		},
		{
			noun: "audit verify", args: "FILE", short: "Check that an exported audit log is complete and unchanged",
			long: `Checks a file that corvo audit export wrote in the native format: that no entry was changed,
removed, inserted or moved, and that it agrees with every signed head in it. This needs no server.
With --key, only signatures of keys that you know count. Without it, the file is checked against the
keys that are in it, so compare their ids with those of corvo audit keys. Exits with 1 if the file
was tampered with.`,
			example: "  {cmd} audit.ndjson\n  {cmd} audit.ndjson --key corvo_audit_5f0c6b7d8e9fa0b1c2d3e4f5a6b7c8d9",
			flags: func(c *cobra.Command) {
				c.Flags().StringSliceVar(&v.keys, "key", nil, "`ID` of a key that may sign; repeatable")
			},
			run: func(_ *cobra.Command, args []string) error { return s.auditVerify(args[0], v.keys) },
		},
		{
			noun: "audit keys", short: "List the public keys that sign the audit log", example: "  {cmd}",
			flags: k.common,
			run:   func(c *cobra.Command, _ []string) error { return s.auditKeys(c.Context(), &k) },
		},
	}
}

// auditCloud is where the audit log is, for somebody who is signed in.
func (s *session) auditCloud(f *auditFlags) (*cloud, cloudv1connect.AuditServiceClient, error) {
	c, err := s.cloud(f.endpoint)
	if err != nil {
		return nil, nil, err
	}
	if c.token == "" {
		return nil, nil, &Failure{Exit: ExitAuth, Code: "NOT_SIGNED_IN", What: "you aren't signed in",
			Fix: "create a tenant with `corvo signup`, or set CORVO_ENDPOINT and CORVO_TOKEN"}
	}
	return c, cloudv1connect.NewAuditServiceClient(c.http, c.endpoint), nil
}

// momentOf reads the value of a time flag.
func momentOf(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return timestamppb.New(t), nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int
		if n, err = strconv.Atoi(days); err == nil {
			ago = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || ago < 0 {
		return nil, usagef("--%s %q isn't a time; use 2026-11-22T14:43:15Z, 2026-11-22, or 24h or 30d for so long ago", flag, text)
	}
	return timestamppb.New(now.Add(-ago)), nil
}

func (f *auditFlags) moments() (after, before *timestamppb.Timestamp, err error) {
	now := time.Now()
	after, err = momentOf("after", f.after, now)
	if err != nil {
		return nil, nil, err
	}
	before, err = momentOf("before", f.before, now)
	return after, before, err
}

func (s *session) auditList(ctx context.Context, f *auditFlags) error {
	if f.limit < 0 {
		return usagef("--limit can't be negative")
	}
	after, before, err := f.moments()
	if err != nil {
		return err
	}
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	r := &cloudv1.ListAuditEventsRequest{
		Tenant: f.tenant, ActorId: f.actor, Action: f.action, TargetId: f.target, Namespace: f.namespace, After: after, Before: before,
	}
	var events []*cloudv1.AuditEvent
	for {
		r.PageSize = auditPage
		if f.limit > 0 {
			r.PageSize = int32(min(auditPage, f.limit-len(events)))
		}
		page, err := ask(ctx, c, s, client.ListAuditEvents, r)
		if err != nil {
			return err
		}
		events = append(events, page.GetEvents()...)
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" || f.limit > 0 && len(events) >= f.limit {
			break
		}
	}
	return s.printAudit(events, r.GetPageToken() != "")
}

func (s *session) printAudit(events []*cloudv1.AuditEvent, more bool) error {
	raw := make([]json.RawMessage, len(events))
	rows := make([][]string, len(events))
	now := time.Now()
	for i, e := range events {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		raw[i] = text
		rows[i] = []string{ago(e.GetAt().AsTime(), now), cmp.Or(e.GetActor(), e.GetActorId(), e.GetActorType()), e.GetAction(),
			cmp.Or(e.GetTarget(), e.GetTargetId(), "-"), cmp.Or(e.GetNamespace(), "-"), cmp.Or(e.GetPeer(), "-")}
	}
	err := s.emitAll(raw, func(w io.Writer) {
		if len(rows) > 0 {
			s.table(w, []string{"WHEN", "WHO", "ACTION", "TARGET", "NAMESPACE", "ADDRESS"}, rows)
		}
	})
	if more {
		s.hintf("there are more; --limit 0 shows all of them")
	}
	return err
}

func (s *session) auditExport(ctx context.Context, f *auditFlags) (err error) {
	format, known := map[string]cloudv1.AuditFormat{"native": cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE, "ocsf": cloudv1.AuditFormat_AUDIT_FORMAT_OCSF}[f.format]
	if !known {
		return usagef("--format %q isn't native or ocsf", f.format)
	}
	after, before, err := f.moments()
	if err != nil {
		return err
	}
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	to := io.Writer(s.proc.Stdout)
	if f.file != "-" {
		file, failed := os.OpenFile(f.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if failed != nil {
			return cannotCreate(f.file, failed)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	w := bufio.NewWriter(to)
	r := &cloudv1.ExportAuditLogRequest{Tenant: f.tenant, Format: format, After: after, Before: before, PageSize: auditPage}
	entries := 0
	for {
		page, err := ask(ctx, c, s, client.ExportAuditLog, r)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		for _, line := range page.GetLines() {
			if format == cloudv1.AuditFormat_AUDIT_FORMAT_OCSF || strings.HasPrefix(line, `{"kind":"entry"`) {
				entries++
			}
			_, _ = w.WriteString(line + "\n") // Flush tells.
		}
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
			break
		}
		s.progressf("exported %s", entriesOf(entries))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	s.talkf("exported %s", entriesOf(entries))
	return nil
}

func entriesOf(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.Itoa(n) + " entries"
}

func (s *session) auditVerify(name string, trusted []string) (err error) {
	file := io.Reader(s.proc.Stdin)
	if name != "-" {
		opened, failed := os.Open(name)
		if failed != nil {
			return &Failure{Exit: ExitUsage, Code: "FILE", What: "can't read the file", Why: failed.Error()}
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		file = opened
	}
	r, err := auditlog.Verify(file, trusted...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := s.emitValue(r, func(w io.Writer) { printVerdict(w, r, len(trusted) > 0) }); err != nil {
		return err
	}
	if r.Valid {
		return nil
	}
	return &Failure{Exit: ExitFail, Code: "AUDIT_LOG_BROKEN", What: name + " isn't the audit log that was exported", Why: r.Problems[0].String(),
		Fix: "get the export again, or ask whoever handled the file"}
}

func printVerdict(w io.Writer, r auditlog.Report, trusted bool) {
	if !r.Valid {
		fmt.Fprintf(w, "broken  %s\n", cmp.Or(r.Tenant, "unknown tenant"))
		for _, p := range r.Problems {
			fmt.Fprintf(w, "  %s\n", p)
		}
		if r.More {
			fmt.Fprintln(w, "  and more")
		}
		return
	}
	fmt.Fprintf(w, "valid  %s  %s, %d signed heads, exported %s\n", r.Tenant, entriesOf(int(r.Entries)), r.Heads, r.Exported)
	switch {
	case r.From > r.To:
	case r.From > r.FirstSeq:
		fmt.Fprintf(w, "entries %d to %d; the log begins at %d, earlier ones were not asked for\n", r.From, r.To, r.FirstSeq)
	case r.FirstSeq > 1:
		fmt.Fprintf(w, "entries %d to %d; earlier ones were deleted at the end of their retention, which is signed\n", r.From, r.To)
	default:
		fmt.Fprintf(w, "entries %d to %d, from the beginning of the log\n", r.From, r.To)
	}
	for _, id := range r.KeyIDs {
		fmt.Fprintf(w, "key %s\n", id)
	}
	if !trusted {
		fmt.Fprintln(w, "the keys are those in the file; compare their ids with those of corvo audit keys, or use --key")
	}
}

func (s *session) auditKeys(ctx context.Context, f *auditFlags) error {
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	res, err := ask(ctx, c, s, client.ListAuditKeys, &cloudv1.ListAuditKeysRequest{Tenant: f.tenant})
	if err != nil {
		return err
	}
	return s.emitMessage(res, func(w io.Writer) {
		if len(res.GetKeys()) == 0 {
			return
		}
		var rows [][]string
		for _, k := range res.GetKeys() {
			rows = append(rows, []string{k.GetId(), k.GetCreatedAt().AsTime().Format(time.DateOnly), hex.EncodeToString(k.GetPublicKey())})
		}
		s.table(w, []string{"ID", "CREATED", "PUBLIC KEY (ED25519)"}, rows)
	})
}
