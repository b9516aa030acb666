package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Method is a use case under the name of an RPC.
type Method struct {
	procedure string
	handler   func(...connect.HandlerOption) http.Handler
}

// Unary makes a Method. Procedure is the generated constant.
func Unary[Req, Res any](procedure string, f func(context.Context, *Req) (*Res, error)) Method {
	return Method{procedure: procedure, handler: func(o ...connect.HandlerOption) http.Handler {
		return connect.NewUnaryHandler(procedure, func(ctx context.Context, r *connect.Request[Req]) (*connect.Response[Res], error) {
			res, err := f(ctx, r.Msg)
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(res), nil
		}, o...)
	}}
}

// apiPackage is the proto package whose services this server offers, all of them.
const apiPackage = "corvo.cloud.v1"

// tenantField names the tenant in every request that is about one.
const tenantField protoreflect.Name = "tenant"

// rule is what the proto says about an RPC.
type rule struct {
	procedure  string
	permission cloudv1.Permission
	safe       bool // Without side effects: may be a GET.
	halfOpen   bool // Also for a session that lacks the second factor.
	stepUp     bool // Needs a fresh proof of the second factor.
}

// inTenant reports whether a call needs a permission in the tenant that its request names.
func (r rule) inTenant() bool {
	return r.permission != cloudv1.Permission_PERMISSION_PUBLIC && r.permission != cloudv1.Permission_PERMISSION_SIGNED_IN && !r.forOperators()
}

// forOperators reports whether a call is for operators of the service alone.
func (r rule) forOperators() bool {
	return r.permission == cloudv1.Permission_PERMISSION_OPERATOR
}

// rules reads every RPC of the API from the descriptors, and complains about each that
// does not say who may call it.
func rules() (map[string]rule, error) {
	all := make(map[string]rule)
	var problems []error
	protoregistry.GlobalFiles.RangeFilesByPackage(apiPackage, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				r, err := ruleOf(methods.Get(j))
				problems = append(problems, err)
				all[r.procedure] = r
			}
		}
		return true
	})
	return all, errors.Join(problems...)
}

func ruleOf(m protoreflect.MethodDescriptor) (rule, error) {
	o, _ := m.Options().(*descriptorpb.MethodOptions)
	r := rule{
		procedure:  fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()),
		permission: proto.GetExtension(o, cloudv1.E_Permission).(cloudv1.Permission),
		safe:       o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS,
		halfOpen:   proto.GetExtension(o, cloudv1.E_HalfOpen).(bool),
		stepUp:     proto.GetExtension(o, cloudv1.E_StepUp).(bool),
	}
	if m.IsStreamingClient() || m.IsStreamingServer() {
		return r, fmt.Errorf("%s: streams are not guarded", r.procedure)
	}
	switch {
	case r.permission == cloudv1.Permission_PERMISSION_UNSPECIFIED:
		return r, fmt.Errorf("%s: no permission", r.procedure)
	case r.forOperators() && r.halfOpen:
		return r, fmt.Errorf("%s: an operator's sign-in must be finished", r.procedure)
	case !r.inTenant():
		return r, nil
	}
	if p := permission.Permission(r.permission); r.permission != cloudv1.Permission_PERMISSION_IN_TENANT && !p.Known() {
		return r, fmt.Errorf("%s: %s is no permission", r.procedure, r.permission)
	}
	if f := m.Input().Fields().ByName(tenantField); f == nil || f.Kind() != protoreflect.StringKind {
		return r, fmt.Errorf("%s: needs a permission in a tenant, but its request names none", r.procedure)
	}
	return r, nil
}

// match demands exactly one method for each rule.
func match(all map[string]rule, methods []Method) error {
	var problems []error
	given := make(map[string]bool, len(methods))
	for _, m := range methods {
		if _, ok := all[m.procedure]; !ok {
			problems = append(problems, fmt.Errorf("%s: not an RPC of %s", m.procedure, apiPackage))
		}
		if given[m.procedure] {
			problems = append(problems, fmt.Errorf("%s: registered twice", m.procedure))
		}
		given[m.procedure] = true
	}
	for p := range all {
		if !given[p] {
			problems = append(problems, fmt.Errorf("%s: no implementation", p))
		}
	}
	return errors.Join(problems...)
}

// permissionName is how people write a permission: key.create.
func permissionName(p cloudv1.Permission) string { return permission.Permission(p).String() }
