package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// headPage is how many of the newest entries are looked at: those of one moment are in no
// order of their numbers.
const headPage = 50

type auditHeadSource struct{ configured }

type auditHeadModel struct {
	Seq    types.Int64  `tfsdk:"seq"`
	Hash   types.String `tfsdk:"hash"`
	At     types.String `tfsdk:"at"`
	KeyIDs types.Set    `tfsdk:"key_ids"`
}

func newAuditHeadSource() datasource.DataSource { return &auditHeadSource{} }

// Metadata implements datasource.DataSource.
func (s *auditHeadSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "corvo_audit_head"
}

// Schema implements datasource.DataSource.
func (s *auditHeadSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The last entry of the tenant's audit log: its number, and the hash that covers it and every entry before. Kept outside of the service, for example as an output in the " +
			"state, it shows whether the log was rewritten later: entry `seq` of every later export must have this `hash`. Every change makes an entry, so this changes with most applies.",
		Attributes: map[string]schema.Attribute{
			"seq":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of the entry in the tenant's chain."},
			"hash":    computed("SHA-256 in hex."),
			"at":      computed("When the entry was written (RFC 3339)."),
			"key_ids": computedSet("Ids of the keys that sign exports, for `corvo audit verify --key`; null before the first export or hourly head."),
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *auditHeadSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *auditHeadSource) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	m, err := auditHead(ctx, s.cloud)
	if err != nil {
		addError(&resp.Diagnostics, "read corvo_audit_head", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func auditHead(ctx context.Context, c *cloud.Client) (m auditHeadModel, _ error) {
	entries, err := c.Audit().ListAuditEvents(ctx, connect.NewRequest(&cloudv1.ListAuditEventsRequest{PageSize: headPage}))
	if err != nil {
		return m, err
	}
	keys, err := c.Audit().ListAuditKeys(ctx, connect.NewRequest(&cloudv1.ListAuditKeysRequest{}))
	if err != nil {
		return m, err
	}
	var last *cloudv1.AuditEvent
	for _, e := range entries.Msg.GetEvents() {
		if e.GetSeq() > last.GetSeq() {
			last = e
		}
	}
	var ids []string
	for _, k := range keys.Msg.GetKeys() {
		ids = append(ids, k.GetId())
	}
	return auditHeadModel{Seq: types.Int64Value(last.GetSeq()), Hash: types.StringValue(last.GetHash()), At: timestamp(last.GetAt()), KeyIDs: setOf(ids)}, nil
}

var _ datasource.DataSourceWithConfigure = (*auditHeadSource)(nil)
