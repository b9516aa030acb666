package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

type sinkFlags struct {
	auditFlags
	url, syslog                              string
	endpoint3, region, bucket, prefix, keyID string
	port                                     int32
	fromBeginning                            bool
}

// Secrets of a sink come from the environment, so that they are in no list of processes.
const (
	envSigning       = "CORVO_SINK_SIGNING_SECRET"
	envAuthorization = "CORVO_SINK_AUTHORIZATION"
	envAccessKey     = "AWS_SECRET_ACCESS_KEY"
)

func (s *session) auditSinkVerbs() []verb {
	var l, c, d, on, off auditFlags
	var n sinkFlags
	return []verb{
		{
			noun: "audit sinks", short: "List where the audit log is sent, and whether it arrives", example: "  {cmd}", flags: l.common,
			run: func(cmd *cobra.Command, _ []string) error { return s.sinks(cmd.Context(), &l) },
		},
		{
			noun: "audit add-sink", args: "NAME", short: "Send the audit log to an HTTPS URL, an S3 bucket or a syslog server",
			long: `Sends every new entry of the audit log to a place of yours, in order, at least once. A test event
is sent first, and a place that doesn't take it is refused. Secrets come from the environment:
` + envSigning + ` signs what is sent to --url (16 characters at least), ` + envAuthorization + `
is its header Authorization, ` + envAccessKey + ` is that of --s3-bucket.`,
			example: `  {cmd} siem --url https://siem.company.com/audit
  {cmd} archive --s3-endpoint https://s3.eu-central-1.amazonaws.com --s3-region eu-central-1 --s3-bucket audit --s3-key-id AKIA…
  {cmd} log --syslog log.company.com --format ocsf`,
			flags: func(cmd *cobra.Command) {
				n.common(cmd)
				fs := cmd.Flags()
				fs.StringVar(&n.url, "url", "", "POST batches to this `URL`")
				fs.StringVar(&n.endpoint3, "s3-endpoint", "", "`URL` of the S3 service")
				fs.StringVar(&n.region, "s3-region", "", "`REGION` of the bucket")
				fs.StringVar(&n.bucket, "s3-bucket", "", "write objects to this `BUCKET`")
				fs.StringVar(&n.prefix, "s3-prefix", "", "begin the objects' names with `TEXT`")
				fs.StringVar(&n.keyID, "s3-key-id", "", "access key `ID`")
				fs.StringVar(&n.syslog, "syslog", "", "send to this `HOST` by syslog over TLS")
				fs.Int32Var(&n.port, "syslog-port", 0, "`PORT` of the syslog server (default 6514)")
				fs.StringVar(&n.format, "format", "native", "`FORMAT` of the entries: native or ocsf")
				fs.BoolVar(&n.fromBeginning, "from-beginning", false, "send the entries that there are, too")
				completeWords(cmd, "format", "native", "ocsf")
			},
			run: func(cmd *cobra.Command, args []string) error { return s.addSink(cmd.Context(), args[0], &n) },
		},
		{
			noun: "audit test-sink", args: "SINK", short: "Send a test event to a sink now", example: "  {cmd} siem", flags: c.common,
			run: func(cmd *cobra.Command, args []string) error { return s.testSink(cmd.Context(), &c, args[0]) },
		},
		{
			noun: "audit enable-sink", args: "SINK", short: "Send to a disabled sink again, from where it stopped", example: "  {cmd} siem", flags: on.common,
			run: func(cmd *cobra.Command, args []string) error { return s.switchSink(cmd.Context(), &on, args[0], true) },
		},
		{
			noun: "audit disable-sink", args: "SINK", short: "Send nothing to a sink for now", example: "  {cmd} siem", flags: off.common,
			run: func(cmd *cobra.Command, args []string) error {
				return s.switchSink(cmd.Context(), &off, args[0], false)
			},
		},
		{
			noun: "audit delete-sink", args: "SINK", short: "Delete a sink", example: "  {cmd} siem", flags: d.common,
			run: func(cmd *cobra.Command, args []string) error { return s.deleteSink(cmd.Context(), &d, args[0]) },
		},
	}
}

// sinkOf finds a sink by its name or id.
func (s *session) sinkOf(ctx context.Context, f *auditFlags, name string) (*cloudv1.AuditSink, error) {
	c, client, err := s.auditCloud(f)
	if err != nil {
		return nil, err
	}
	all, err := ask(ctx, c, s, client.ListAuditSinks, &cloudv1.ListAuditSinksRequest{Tenant: f.tenant})
	if err != nil {
		return nil, err
	}
	for _, sink := range all.GetSinks() {
		if sink.GetName() == name || sink.GetId() == name {
			return sink, nil
		}
	}
	return nil, &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: fmt.Sprintf("there is no audit sink %q", name), Fix: "corvo audit sinks lists them"}
}

func (s *session) sinks(ctx context.Context, f *auditFlags) error {
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	all, err := ask(ctx, c, s, client.ListAuditSinks, &cloudv1.ListAuditSinksRequest{Tenant: f.tenant})
	if err != nil {
		return err
	}
	return s.emitMessage(all, func(w io.Writer) { s.printSinks(w, all.GetSinks()) })
}

func (s *session) printSinks(w io.Writer, sinks []*cloudv1.AuditSink) {
	if len(sinks) == 0 {
		return
	}
	now := time.Now()
	var rows [][]string
	for _, k := range sinks {
		last := "-"
		if k.GetSentAt() != nil {
			last = ago(k.GetSentAt().AsTime(), now)
		}
		problem := "-"
		if k.GetLastError() != "" {
			problem = fmt.Sprintf("since %s: %s", ago(k.GetFailingSince().AsTime(), now), k.GetLastError())
		}
		rows = append(rows, []string{k.GetName(), sinkPlace(k), strings.ToLower(strings.TrimPrefix(k.GetState().String(), "AUDIT_SINK_STATE_")),
			fmt.Sprintf("%d of %d", k.GetSentSeq(), k.GetLatestSeq()), last, problem})
	}
	s.table(w, []string{"NAME", "TARGET", "STATE", "SENT", "LAST", "PROBLEM"}, rows)
}

func sinkPlace(k *cloudv1.AuditSink) string {
	switch {
	case k.GetHttps() != nil:
		return k.GetHttps().GetUrl()
	case k.GetS3() != nil:
		return "s3://" + k.GetS3().GetBucket() + "/" + k.GetS3().GetPrefix()
	case k.GetSyslog() != nil:
		return fmt.Sprintf("syslog+tls://%s:%d", k.GetSyslog().GetHost(), k.GetSyslog().GetPort())
	}
	return "-"
}

func (s *session) addSink(ctx context.Context, name string, f *sinkFlags) error {
	r := &cloudv1.CreateAuditSinkRequest{Tenant: f.tenant, Name: name, FromBeginning: f.fromBeginning, Format: cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE}
	switch f.format {
	case "native":
	case "ocsf":
		r.Format = cloudv1.AuditFormat_AUDIT_FORMAT_OCSF
	default:
		return usagef("--format %q isn't native or ocsf", f.format)
	}
	chosen := 0
	if f.url != "" {
		chosen++
		r.Target = &cloudv1.CreateAuditSinkRequest_Https{Https: &cloudv1.HttpsAuditSink{
			Url: f.url, SigningSecret: s.proc.Env(envSigning), Authorization: s.proc.Env(envAuthorization),
		}}
	}
	if f.bucket != "" {
		chosen++
		r.Target = &cloudv1.CreateAuditSinkRequest_S3{S3: &cloudv1.S3AuditSink{
			Endpoint: f.endpoint3, Region: f.region, Bucket: f.bucket, Prefix: f.prefix, AccessKeyId: f.keyID, SecretAccessKey: s.proc.Env(envAccessKey),
		}}
	}
	if f.syslog != "" {
		chosen++
		r.Target = &cloudv1.CreateAuditSinkRequest_Syslog{Syslog: &cloudv1.SyslogAuditSink{Host: f.syslog, Port: f.port}}
	}
	if chosen != 1 {
		return usagef("choose one target: --url, --s3-bucket or --syslog")
	}
	c, client, err := s.auditCloud(&f.auditFlags)
	if err != nil {
		return err
	}
	made, err := ask(ctx, c, s, client.CreateAuditSink, r)
	if err != nil {
		return err
	}
	return s.emitMessage(made.GetSink(), func(w io.Writer) { fmt.Fprintf(w, "%s  %s\n", made.GetSink().GetId(), sinkPlace(made.GetSink())) })
}

func (s *session) testSink(ctx context.Context, f *auditFlags, name string) error {
	sink, err := s.sinkOf(ctx, f, name)
	if err != nil {
		return err
	}
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	res, err := ask(ctx, c, s, client.TestAuditSink, &cloudv1.TestAuditSinkRequest{Tenant: f.tenant, SinkId: sink.GetId()})
	if err != nil {
		return err
	}
	if !res.GetDelivered() {
		err = &Failure{Exit: ExitFail, Code: "NOT_DELIVERED", What: "the test event didn't arrive", Why: res.GetProblem()}
	}
	return errors.Join(s.emitMessage(res, func(w io.Writer) {
		if res.GetDelivered() {
			fmt.Fprintf(w, "%s  delivered\n", sink.GetName())
		}
	}), err)
}

func (s *session) switchSink(ctx context.Context, f *auditFlags, name string, enabled bool) error {
	sink, err := s.sinkOf(ctx, f, name)
	if err != nil {
		return err
	}
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	res, err := ask(ctx, c, s, client.UpdateAuditSink, &cloudv1.UpdateAuditSinkRequest{
		Tenant: f.tenant, SinkId: sink.GetId(), Enabled: enabled, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"enabled"}},
	})
	if err != nil {
		return err
	}
	return s.emitMessage(res.GetSink(), func(w io.Writer) { s.printSinks(w, []*cloudv1.AuditSink{res.GetSink()}) })
}

func (s *session) deleteSink(ctx context.Context, f *auditFlags, name string) error {
	sink, err := s.sinkOf(ctx, f, name)
	if err != nil {
		return err
	}
	c, client, err := s.auditCloud(f)
	if err != nil {
		return err
	}
	res, err := ask(ctx, c, s, client.DeleteAuditSink, &cloudv1.DeleteAuditSinkRequest{Tenant: f.tenant, SinkId: sink.GetId()})
	if err != nil {
		return err
	}
	return s.emitMessage(res, func(w io.Writer) { fmt.Fprintf(w, "%s  deleted\n", sink.GetName()) })
}
