package cloud_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// standing is a tenant's plan and state, as its API says.
func standing(ctx context.Context, api rig.API, tenant string) string {
	var said struct {
		Subscription struct {
			Plan  struct{ Name string }
			State string
		}
	}
	if err := api.Call(ctx, "PlanService/GetSubscription", map[string]any{"tenant": tenant}, &said); err != nil {
		return err.Error()
	}
	return said.Subscription.Plan.Name + " " + said.Subscription.State
}

// press presses a button of a page of the test payments.
func press(t *testing.T, page, button string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(url.Values{"do": {button}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s at %s: %s, %v", button, page, res.Status, err)
	}
}

// A tenant pays for a plan with the test payments, and both sides still know each other after a
// restart: a portal opens, an unpaid invoice shows, and the end of the plan arrives.
func TestTestPayments_APlanIsPaidForAndARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	ctx := ctxFor(t, 3*time.Minute)
	data := filepath.Join(t.TempDir(), "data")
	u := rig.StartUp(t, data, "--nodes", "1", "--test-payments")
	signed, err := u.SignUp(ctx, "owner@acme.test", "acme")
	if err != nil {
		t.Fatal(err)
	}
	api := rig.NewAPI(u.API.URL, signed.Token)
	is := func(what, want string) {
		t.Helper()
		eventually.NoError(t, patience, what, func() error {
			if got := standing(ctx, api, "acme"); got != want {
				return fmt.Errorf("the plan is %s, want %s", got, want)
			}
			return nil
		})
	}
	open := func(call string, more map[string]any) string {
		t.Helper()
		var page struct{ URL string }
		in := map[string]any{"tenant": "acme"}
		for k, v := range more {
			in[k] = v
		}
		if err := api.Call(ctx, "BillingService/"+call, in, &page); err != nil {
			t.Fatal(err)
		}
		return page.URL
	}
	is("it begins with nothing paid", "free active")
	press(t, open("StartCheckout", map[string]any{"plan": "team"}), "pay")
	is("the plan is paid", "team active")
	u.Signal(syscall.SIGINT)
	u.WaitExit(10 * time.Second)

	u = rig.StartUp(t, data, "--nodes", "1", "--test-payments")
	api = rig.NewAPI(u.API.URL, signed.Token)
	is("the plan is there after a restart", "team active")
	portal := open("OpenPortal", nil)
	press(t, portal, "pm_card_chargeCustomerFail")
	press(t, portal, "renew")
	is("the card is declined", "team past_due")
	press(t, portal, "pm_card_visa")
	is("another card pays", "team active")
	press(t, portal, "end")
	is("the plan is cancelled", "free active")
	u.Signal(syscall.SIGINT)
	u.WaitExit(10 * time.Second)

	// Test payments that know none of the database's customers are refused.
	if err := os.Remove(filepath.Join(data, "payments.json")); err != nil {
		t.Fatal(err)
	}
	_, stderr, exit := rig.Run(t, 30*time.Second, "up", "--data", data, "--nodes", "1", "--listen", "127.0.0.1:0", "--test-payments")
	if exit == 0 || !strings.Contains(stderr, "first used with the test payments acct_") {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
}
