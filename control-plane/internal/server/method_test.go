package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func TestRules_EveryRPCSaysWhoMayCallIt(t *testing.T) {
	t.Parallel()
	all, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("%d RPCs found", len(all))
	}
	for p, want := range map[string]cloudv1.Permission{
		"/corvo.cloud.v1.SignupService/Start":             cloudv1.Permission_PERMISSION_PUBLIC,
		"/corvo.cloud.v1.ApiKeyService/RotateApiKey":      cloudv1.Permission_PERMISSION_KEY_UPDATE,
		"/corvo.cloud.v1.AuthService/GetCurrentIdentity":  cloudv1.Permission_PERMISSION_SIGNED_IN,
		"/corvo.cloud.v1.NamespaceService/ListNamespaces": cloudv1.Permission_PERMISSION_IN_TENANT,
	} {
		if got := all[p].permission; got != want {
			t.Errorf("%s needs %v, want %v", p, got, want)
		}
	}
	if !all["/corvo.cloud.v1.NamespaceService/ListNamespaces"].safe || all["/corvo.cloud.v1.ApiKeyService/RotateApiKey"].safe {
		t.Error("whether a call has side effects is read wrong")
	}
}

// methodOf makes the descriptor of an RPC by hand.
func methodOf(t *testing.T, tenantField bool, stream bool, permission cloudv1.Permission) protoreflect.MethodDescriptor {
	t.Helper()
	str := func(s string) *string { return &s }
	in := &descriptorpb.DescriptorProto{Name: str("In")}
	if tenantField {
		in.Field = []*descriptorpb.FieldDescriptorProto{{
			Name: str("tenant"), Number: new(int32), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}
		*in.Field[0].Number = 1
	}
	o := new(descriptorpb.MethodOptions)
	if permission != 0 {
		o.ProtoReflect().Set(cloudv1.E_Permission.TypeDescriptor(), protoreflect.ValueOfEnum(permission.Number()))
	}
	f, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: str("x.proto"), Package: str("x"), Syntax: str("proto3"), MessageType: []*descriptorpb.DescriptorProto{in},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: str("S"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: str("M"), InputType: str(".x.In"), OutputType: str(".x.In"), Options: o, ServerStreaming: &stream,
		}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Services().Get(0).Methods().Get(0)
}

func TestRuleOf_RefusesWhatWouldBeUnguarded(t *testing.T) {
	t.Parallel()
	read := cloudv1.Permission_PERMISSION_KEY_READ
	for name, tc := range map[string]struct {
		tenant, stream bool
		permission     cloudv1.Permission
		problem        string
	}{
		"good":                          {true, false, read, ""},
		"public needs no tenant":        {false, false, cloudv1.Permission_PERMISSION_PUBLIC, ""},
		"no permission":                 {true, false, 0, "no permission"},
		"permission without a tenant":   {false, false, read, "names none"},
		"stream, which nobody guards":   {true, true, read, "streams"},
		"signed in needs no tenant too": {false, false, cloudv1.Permission_PERMISSION_SIGNED_IN, ""},
		"an operator's needs no tenant": {false, false, cloudv1.Permission_PERMISSION_OPERATOR, ""},
	} {
		_, err := ruleOf(methodOf(t, tc.tenant, tc.stream, tc.permission))
		if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
}

func TestMatch_WantsOneImplementationForEachRPC(t *testing.T) {
	t.Parallel()
	all := map[string]rule{"/s/A": {}, "/s/B": {}}
	of := func(names ...string) (out []Method) {
		for _, n := range names {
			out = append(out, Unary(n, func(context.Context, *cloudv1.GetTenantRequest) (*cloudv1.GetTenantResponse, error) { return nil, nil }))
		}
		return out
	}
	if err := match(all, of("/s/A", "/s/B")); err != nil {
		t.Error(err)
	}
	for problem, methods := range map[string][]Method{
		"/s/B: no implementation": of("/s/A"),
		"/s/A: registered twice":  of("/s/A", "/s/A", "/s/B"),
		"/s/C: not an RPC":        of("/s/A", "/s/B", "/s/C"),
	} {
		if err := match(all, methods); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %s", err, problem)
		}
	}
}
