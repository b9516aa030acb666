package acceptance

import (
	"net/http"
	"net/http/cookiejar"
	"testing"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// tryOut is a person who is signed in to the console and tests a connection, as it is staged
// or else as it is.
func (s *service) tryOut(t *testing.T, connection string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, email := &http.Client{Jar: jar}, name(t, "tester")+"@acme.test"
	o := s.other()
	must(o.members.CreateInvitation(t.Context(), connect.NewRequest(&cloudv1.CreateInvitationRequest{Email: email, Roles: []string{"admin"}})))(t)
	members := cloudv1connect.NewMemberServiceClient(browser, s.endpoint())
	eventually.NoError(t, startMax, "accept the invitation", func() error {
		err := error(connect.NewError(connect.CodeNotFound, nil))
		for _, token := range s.invitations(t, email) {
			_, err = members.AcceptInvitation(t.Context(), connect.NewRequest(&cloudv1.AcceptInvitationRequest{Token: token}))
		}
		return err
	})
	user := s.memberOf(t, email)
	t.Cleanup(func() { s.leave(t, user) })
	start := must(o.connections.StartTestLogin(t.Context(), connect.NewRequest(&cloudv1.StartTestLoginRequest{ConnectionId: connection})))(t)
	res, err := browser.Get(start.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("test sign-in: %d %v", res.StatusCode, err)
	}
}
