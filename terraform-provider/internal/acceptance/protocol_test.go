package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// What Terraform 1.11 can't ask for (identities, list resources), asked of the provider by
// the protocol itself.

// protocol is a provider that speaks to a service, and its schemas.
type protocol struct {
	tfprotov6.ProviderServerWithListResource

	t          *testing.T
	schemas    *tfprotov6.GetProviderSchemaResponse
	identities map[string]*tfprotov6.ResourceIdentitySchema
}

func speak(t *testing.T, s *service) *protocol {
	t.Helper()
	server, err := factories()["corvo"]()
	if err != nil {
		t.Fatal(err)
	}
	lists, ok := server.(tfprotov6.ProviderServerWithListResource)
	if !ok {
		t.Fatal("the provider lists nothing")
	}
	p := &protocol{ProviderServerWithListResource: lists, t: t}
	schemas, err := p.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	p.schemas = schemas
	p.fine(err, schemas.Diagnostics)
	identities, err := p.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	p.fine(err, identities.Diagnostics)
	p.identities = identities.IdentitySchemas
	if s != nil {
		config := p.object(schemas.Provider.ValueType(), map[string]any{"endpoint": s.endpoint(), "token": s.token()})
		res, err := p.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.14.0", Config: config})
		p.fine(err, res.Diagnostics)
	}
	return p
}

func said(diags []*tfprotov6.Diagnostic) string {
	var lines []string
	for _, d := range diags {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			lines = append(lines, d.Summary+": "+d.Detail)
		}
	}
	return strings.Join(lines, "\n")
}

func (p *protocol) fine(err error, diags []*tfprotov6.Diagnostic) {
	p.t.Helper()
	if text := said(diags); err != nil || text != "" {
		p.t.Fatal(err, text)
	}
}

// object is a value of an object's type, with null for what isn't given.
func (p *protocol) object(of tftypes.Type, given map[string]any) *tfprotov6.DynamicValue {
	p.t.Helper()
	o, ok := of.(tftypes.Object)
	if !ok {
		p.t.Fatalf("%s is no object", of)
	}
	values := map[string]tftypes.Value{}
	for name, kind := range o.AttributeTypes {
		values[name] = tftypes.NewValue(kind, given[name])
	}
	v, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, values))
	if err != nil {
		p.t.Fatal(err)
	}
	return &v
}

func (p *protocol) null(of tftypes.Type) *tfprotov6.DynamicValue {
	p.t.Helper()
	v, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, nil))
	if err != nil {
		p.t.Fatal(err)
	}
	return &v
}

func (p *protocol) read(of tftypes.Type, v *tfprotov6.DynamicValue) tftypes.Value {
	p.t.Helper()
	out, err := v.Unmarshal(of)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// who reads an identity; empty if there is none.
func (p *protocol) who(typeName string, v *tfprotov6.ResourceIdentityData) (tenant, id string) {
	p.t.Helper()
	if v == nil {
		return "", ""
	}
	value, fields := p.read(p.identities[typeName].ValueType(), v.IdentityData), map[string]tftypes.Value{}
	if err := value.As(&fields); err != nil {
		p.t.Fatal(err)
	}
	for name, into := range map[string]*string{"tenant_id": &tenant, "id": &id} {
		if fields[name].IsNull() {
			continue
		}
		if err := fields[name].As(into); err != nil {
			p.t.Fatal(err)
		}
	}
	return tenant, id
}

func (p *protocol) identity(typeName, tenant, id string) *tfprotov6.ResourceIdentityData {
	p.t.Helper()
	given := map[string]any{"id": id}
	if tenant != "" {
		given["tenant_id"] = tenant
	}
	return &tfprotov6.ResourceIdentityData{IdentityData: p.object(p.identities[typeName].ValueType(), given)}
}

// held is a resource's state, as Terraform keeps it.
type held struct {
	typeName string
	state    *tfprotov6.DynamicValue
	identity *tfprotov6.ResourceIdentityData
}

// apply plans and applies a configuration over what there is.
func (p *protocol) apply(was held, config map[string]any) held {
	p.t.Helper()
	of := p.schemas.ResourceSchemas[was.typeName].ValueType()
	if was.state == nil {
		was.state = p.null(of)
	}
	given := p.object(of, config)
	plan, err := p.PlanResourceChange(p.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: was.typeName, PriorState: was.state, ProposedNewState: p.proposed(of, was.state, config), Config: given, PriorIdentity: was.identity,
	})
	p.fine(err, plan.Diagnostics)
	done, err := p.ApplyResourceChange(p.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: was.typeName, PriorState: was.state, PlannedState: plan.PlannedState, Config: given, PlannedPrivate: plan.PlannedPrivate, PlannedIdentity: plan.PlannedIdentity,
	})
	p.fine(err, done.Diagnostics)
	return held{was.typeName, done.NewState, done.NewIdentity}
}

// proposed is what Terraform proposes: what is configured, else what was.
func (p *protocol) proposed(of tftypes.Type, was *tfprotov6.DynamicValue, config map[string]any) *tfprotov6.DynamicValue {
	p.t.Helper()
	before := map[string]tftypes.Value{}
	if v := p.read(of, was); !v.IsNull() {
		if err := v.As(&before); err != nil {
			p.t.Fatal(err)
		}
	}
	o, _ := of.(tftypes.Object)
	values := map[string]tftypes.Value{}
	for name, kind := range o.AttributeTypes {
		v, known := before[name]
		if given := config[name]; given != nil && !strings.HasSuffix(name, "_wo") {
			v = tftypes.NewValue(kind, given)
		} else if !known {
			v = tftypes.NewValue(kind, nil)
		}
		values[name] = v
	}
	v, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, values))
	if err != nil {
		p.t.Fatal(err)
	}
	return &v
}

func (p *protocol) refresh(was held) held {
	p.t.Helper()
	res, err := p.ReadResource(p.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: was.typeName, CurrentState: was.state, CurrentIdentity: was.identity})
	p.fine(err, res.Diagnostics)
	return held{was.typeName, res.NewState, res.NewIdentity}
}

func (p *protocol) destroy(was held) {
	p.t.Helper()
	of := p.schemas.ResourceSchemas[was.typeName].ValueType()
	res, err := p.ApplyResourceChange(context.WithoutCancel(p.t.Context()), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: was.typeName, PriorState: was.state, PlannedState: p.null(of), Config: p.null(of), PlannedIdentity: was.identity,
	})
	p.fine(err, res.Diagnostics)
}

// adopt imports by id or by identity.
func (p *protocol) adopt(typeName, id string, identity *tfprotov6.ResourceIdentityData) (held, string) {
	p.t.Helper()
	res, err := p.ImportResourceState(p.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: typeName, ID: id, Identity: identity})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(res.ImportedResources) == 0 {
		return held{}, said(res.Diagnostics)
	}
	first := res.ImportedResources[0]
	return held{typeName, first.State, first.Identity}, said(res.Diagnostics)
}

// list gives what a list resource finds, by id.
func (p *protocol) list(typeName string, limit int64, config map[string]any) (map[string]*tfprotov6.ListResourceResult, error) {
	p.t.Helper()
	stream, err := p.ListResource(p.t.Context(), &tfprotov6.ListResourceRequest{
		TypeName: typeName, Config: p.object(p.schemas.ListResourceSchemas[typeName].ValueType(), config), IncludeResource: true, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	found := map[string]*tfprotov6.ListResourceResult{}
	for result := range stream.Results {
		if text := said(result.Diagnostics); text != "" {
			return nil, fmt.Errorf("%s", text)
		}
		_, id := p.who(typeName, result.Identity)
		found[id] = &result
	}
	return found, nil
}
