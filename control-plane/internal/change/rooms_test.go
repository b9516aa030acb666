package change

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// written are the methods of the store whose writes belong in a tenant's audit log or its
// cell, with the files outside this room that may call them, and why.
var written = map[string]map[string]string{
	"InsertTenant":          {"server/restore.go": "adopts what the cell says; its entries follow at the end, and the scan tells the cell"},
	"UpdateTenant":          {"server/restore.go": "as above"},
	"InsertNamespace":       {"server/restore.go": "as above"},
	"UpdateNamespace":       {"server/restore.go": "as above"},
	"InsertKey":             {"server/restore.go": "as above"},
	"UpdateKey":             {"server/restore.go": "as above"},
	"InsertRole":            {"server/restore.go": "as above"},
	"UpdateRole":            nil,
	"DeleteRole":            nil,
	"InsertServiceAccount":  {"server/restore.go": "as above"},
	"UpdateServiceAccount":  nil,
	"DeleteServiceAccount":  nil,
	"InsertTrust":           nil,
	"UpdateTrust":           nil,
	"DeleteTrust":           nil,
	"InsertGroup":           nil,
	"UpdateGroup":           nil,
	"DeleteGroup":           nil,
	"InsertGroupMember":     nil,
	"DeleteGroupMember":     nil,
	"InsertBinding":         {"server/restore.go": "as above"},
	"DeleteBinding":         nil,
	"InsertMembership":      nil,
	"UpdateMembership":      nil,
	"DeleteMembership":      nil,
	"PutInvitation":         nil,
	"DeleteInvitation":      nil,
	"InsertConnection":      nil,
	"UpdateConnection":      {"internal/sso/enter.go": "keeps what a trial sign-in found, which changes nothing"},
	"DeleteConnection":      nil,
	"InsertAuditSink":       nil,
	"UpdateAuditSink":       nil,
	"DeleteAuditSink":       nil,
	"InsertDomain":          nil,
	"UpdateDomain":          nil,
	"DeleteDomain":          nil,
	"InsertSignInPolicy":    nil,
	"UpdateSignInPolicy":    nil,
	"InsertSpendLimit":      nil,
	"UpdateSpendLimit":      nil,
	"PutBreakGlassCodes":    nil,
	"PutBreakGlassEntry":    nil,
	"InsertScimToken":       nil,
	"UpdateScimToken":       nil,
	"InsertDirectoryUser":   nil,
	"UpdateDirectoryUser":   nil,
	"DeleteDirectoryUser":   nil,
	"UpdateSubscription":    nil,
	"PutSubscriptionChange": nil,
	"PutOverride":           nil,
	"DeleteOverride":        nil,
	"PutHold":               nil,
	"DeleteHold":            nil,
	"InsertBillingContacts": nil,
	"UpdateBillingContacts": nil,
	"InsertOutbox": {
		"internal/mail/outbox.go":         "an email goes to somebody, not to a cell",
		"internal/reconcile/scan.go":      "leaves a row for a record that has none",
		"internal/tokenkeys/tokenkeys.go": "the keys that sign are no tenant's",
	},
}

// unwritten are those that write nothing of this kind: people, sign-ins and what is on its
// way, the service's own records, and what the loops note.
var unwritten = []string{
	"InsertFactor", "DeleteFactor", "DeleteHalfFactors", "PutRecoveryCodes", "PutWrongCodes", "InsertUser", "UpdateUser", "PutRemoval", "DeleteRemovals", "InsertIdentity", "UpdateIdentity",
	"InsertSession", "DeleteSession", "DeleteSessionsOfUser", "DeleteSessionsBefore",
	"InsertDeviceLogin", "DeleteDeviceLoginsBefore", "InsertSignup", "UpdateSignup", "DeleteSignupsBefore", "InsertToken", "DeleteTokensBefore",
	// Plans are no tenant's.
	"InsertPlanVersion",
	// Operators are the service's own and have a log of their own; figures are what a loop made of a tenant.
	"PutOperator", "DeleteOperator", "InsertOperatorEntry", "PutTenantFigures",
	// Package audit writes the log and its chain.
	"InsertAudit", "InsertAuditHead", "InsertAuditKey", "DeleteAuditBefore",
	// What cells counted, and what the loops made of it.
	"PutUsageSource", "DeleteUsageSources", "PutUsageClosing", "PutUsageReadings", "PutUsageLevels", "DeleteUsageReadings", "DeleteLimitNoticesBefore",
	// What Stripe has and said; the log has what follows from it.
	"InsertStripeCustomer", "UpdateStripeCustomer", "InsertBillingPush", "InsertStripeEvent", "DeleteStripeEventsBefore", "PutStripeInvoice", "PutBillingDifference", "PutStripeEnding", "DeleteBillingDifference",
	// What ended long ago.
	"DeleteTrustTokensBefore", "DeleteTemporaryKeysBefore",
	"InsertAnswer", "DeleteAnswersBefore", "PutDirectoryState", "InsertSetting", "PutSetting", "UpdateSealed", "DeleteRatesBefore",
}

func TestRecords_AreWrittenByThisRoomAlone(t *testing.T) {
	t.Parallel()
	for m := range reflect.TypeFor[*store.Tx]().Methods() {
		writes := slices.ContainsFunc([]string{"Insert", "Update", "Delete", "Put"}, func(verb string) bool { return strings.HasPrefix(m.Name, verb) })
		if _, known := written[m.Name]; writes && !known && !slices.Contains(unwritten, m.Name) {
			t.Errorf("the store's %s writes: say whether an audit log or a cell must learn of it", m.Name)
		}
	}
	calls := make(map[string]bool)
	for _, dir := range []string{"internal", "server"} {
		callsBelow(t, dir, calls)
	}
	for method, elsewhere := range written {
		if !calls[method+" internal/change/change.go"] && !calls[method+" internal/change/records.go"] && !calls[method+" internal/change/principals.go"] &&
			!calls[method+" internal/change/directory.go"] && !calls[method+" internal/change/plans.go"] {
			t.Errorf("this room does not call %s", method)
		}
		for file := range elsewhere {
			if !calls[method+" "+file] {
				t.Errorf("%s may call %s and does not", file, method)
			}
		}
	}
	for call := range calls {
		method, file, _ := strings.Cut(call, " ")
		if elsewhere, known := written[method]; known && elsewhere[file] == "" && filepath.Dir(file) != "internal/change" {
			t.Errorf("%s calls the store's %s; use change.Make, which writes the entry and the outbox rows too", file, method)
		}
	}
}

// callsBelow notes every "Method file" of the product's code, also where the method is
// named as (*store.Tx).Method.
func callsBelow(t *testing.T, dir string, calls map[string]bool) {
	t.Helper()
	const module = "../.."
	err := filepath.WalkDir(filepath.Join(module, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			slices.Contains([]string{"store", "cloudtest"}, filepath.Base(filepath.Dir(path))) {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(module, path)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok {
					if pkg, ok := s.X.(*ast.Ident); !ok || pkg.Name != "change" {
						calls[s.Sel.Name+" "+filepath.ToSlash(file)] = true
					}
				}
			case *ast.SelectorExpr:
				if _, ok := n.X.(*ast.ParenExpr); ok {
					calls[n.Sel.Name+" "+filepath.ToSlash(file)] = true
				}
			}
			return true
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
