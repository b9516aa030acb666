package cli

import (
	"context"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// renewBefore is how long before its end a token for jobs is made anew.
const renewBefore = 30 * time.Second

// personal makes tokens for the jobs of one namespace, with the session of a person.
type personal struct {
	session           *session
	cloud             *cloud
	tenant, namespace string

	token   string
	expires time.Time
	// asked: the token was made for the call under way, so a refusal of it is final.
	asked bool
}

// renew makes a token if there is none that lasts.
func (p *personal) renew(ctx context.Context) error {
	p.asked = false
	if p.token != "" && time.Until(p.expires) > renewBefore {
		return nil
	}
	if p.cloud.token == "" {
		return notSignedIn()
	}
	if p.namespace == "" {
		f := usagef("choose a namespace")
		f.Fix = "use --namespace or CORVO_NAMESPACE"
		return f
	}
	client := cloudv1connect.NewAuthServiceClient(p.cloud.http, p.cloud.endpoint)
	made, err := ask(ctx, p.cloud, p.session, client.MintToken, &cloudv1.MintTokenRequest{Tenant: p.tenant, Namespace: p.namespace})
	if err != nil {
		return err
	}
	p.token, p.expires, p.asked = made.GetToken(), made.GetExpiresAt().AsTime(), true
	return nil
}

// forget drops a token that is refused.
func (p *personal) forget() { p.token = "" }
