package cli

import (
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func TestPrintConnection_SaysWhichRedirectURIPeopleStillUse(t *testing.T) {
	t.Parallel()
	const own, old = "https://app.corvo.test/auth/oidc/tn_1/callback", "https://app.corvo.test/auth/oidc/callback"
	var moved, before strings.Builder
	printConnection(&moved, &cloudv1.SsoConnection{RedirectUri: own})
	printConnection(&before, &cloudv1.SsoConnection{RedirectUri: own, OldRedirectUri: old})
	if text := moved.String(); !strings.Contains(text, own) || strings.Contains(text, "in use") {
		t.Errorf("of one that has moved:\n%s", text)
	}
	if text := before.String(); !strings.Contains(text, own) || !strings.Contains(text, old+" until a test sign-in succeeds") {
		t.Errorf("of one from before:\n%s", text)
	}
}
