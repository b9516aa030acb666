package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// What the verbs ask the control plane, and what they show of its answer.
func TestAccess_VerbsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	const role = `{"role":{"id":"role_1","name":"on-call","etag":"e","permissions":["job.list"]}}`
	for line, c := range map[string]struct{ answers, body, shows string }{
		"roles list":                            {`{"roles":[{"id":"role_1","name":"on-call","permissions":["job.list"]}]}`, `{"tenant":"acme","pageSize":200}`, "on-call"},
		"roles create x --permission a.b,c.d":   {role, `{"tenant":"acme","name":"x","permissions":["a.b","c.d"]}`, "role_1"},
		"roles update on-call --name y":         {role, `{"tenant":"acme","roleId":"role_1","name":"y","etag":"e","updateMask":"name"}`, "on-call"},
		"roles delete on-call":                  {role, `{"tenant":"acme","roleId":"role_1"}`, "deleted"},
		"bindings create sa_1 worker --in prod": {`{"roleBinding":{"id":"bnd_1","role":"worker","scope":{"namespaceName":"prod"}}}`, `{"tenant":"acme","principalId":"sa_1","role":"worker","scope":{"namespace":"prod"}}`, "prod"},
		"bindings delete bnd_1":                 {`{}`, `{"tenant":"acme","roleBindingId":"bnd_1"}`, "deleted"},
		"service-accounts update d --disabled":  {`{"serviceAccount":{"id":"sa_1","name":"d","disabled":true}}`, `{"tenant":"acme","serviceAccountId":"sa_1","disabled":true,"updateMask":"disabled"}`, "disabled"},
		"trust list --service-account d": {`{"serviceAccount":{"id":"sa_1"},"trusts":[{"id":"trust_1","conditions":[{"claim":"repository","values":["acme/web"]}]}]}`,
			`{"tenant":"acme","pageSize":200,"serviceAccountId":"sa_1"}`, "repository=acme/web"},
		"trusts create web --service-account d --github acme/web --condition ref=refs/heads/main --condition ref=refs/tags/* --life 5m": {`{"trust":{"id":"trust_1"}}`,
			`{"tenant":"acme","name":"web","serviceAccount":"d","provider":"TRUST_PROVIDER_GITHUB","keyLifeSeconds":"300","conditions":[{"claim":"repository","values":["acme/web"]},{"claim":"ref","values":["refs/heads/main","refs/tags/*"]}]}`, "trust_1"},
		"trusts create web --service-account d --kubernetes prod:web --issuer https://k --allow-reuse": {`{"trust":{"id":"trust_1"}}`,
			`{"tenant":"acme","name":"web","serviceAccount":"d","provider":"TRUST_PROVIDER_KUBERNETES","issuer":"https://k","keyLifeSeconds":"900","allowReuse":true,"conditions":[{"claim":"sub","values":["system:serviceaccount:prod:web"]}]}`, "trust_1"},
		"trusts update web --github acme/shop --condition ref=refs/heads/main --life 10m": {`{"trust":{"id":"trust_1","etag":"e","provider":"TRUST_PROVIDER_GITHUB"}}`,
			`{"tenant":"acme","trustId":"trust_1","etag":"e","keyLifeSeconds":"600","conditions":[{"claim":"repository","values":["acme/shop"]},{"claim":"ref","values":["refs/heads/main"]}],"updateMask":"conditions,keyLifeSeconds"}`, "trust_1"},
		"trusts update web --name site --allow-reuse=false --queue mail.*": {`{"trust":{"id":"trust_1","etag":"e"}}`,
			`{"tenant":"acme","trustId":"trust_1","etag":"e","name":"site","queues":["mail.*"],"updateMask":"name,allowReuse,queues"}`, "trust_1"},
		"trusts delete web":                      {`{"trust":{"id":"trust_1"}}`, `{"tenant":"acme","trustId":"trust_1"}`, "deleted"},
		"groups add support ada@acme.test":       {`{"group":{"id":"grp_1"},"members":[{"userId":"usr_1","email":"Ada@acme.test"}]}`, `{"tenant":"acme","groupId":"grp_1","userIds":["usr_1"]}`, "added"},
		"members list":                           {`{"members":[{"userId":"usr_1","email":"a@b.c","ssoConnectionId":"sso_1","external":true}]}`, `{"tenant":"acme","pageSize":200}`, "SSO, external"},
		"members update usr_1 --role viewer":     {`{"member":{"userId":"usr_1","roles":["viewer"]}}`, `{"tenant":"acme","userId":"usr_1","roles":["viewer"]}`, "viewer"},
		"members remove usr_1":                   {`{}`, `{"tenant":"acme","userId":"usr_1"}`, "removed"},
		"invitations create b@c.de --role admin": {`{"invitation":{"id":"inv_1"}}`, `{"tenant":"acme","email":"b@c.de","roles":["admin"]}`, "inv_1"},
		"keys create k --owner d --queue mail.*": {`{"apiKey":{"id":"key_1"},"secret":"corvo_dp_x"}`, `{"tenant":"acme","name":"k","kind":"KEY_KIND_JOBS","owner":"d","queues":["mail.*"]}`, "corvo_dp_x"},
		"keys update key_1 --cidr 10.0.0.0/8":    {`{"apiKey":{"id":"key_1","cidrs":["10.0.0.0/8"]}}`, `{"tenant":"acme","keyId":"key_1","cidrs":["10.0.0.0/8"],"updateMask":"cidrs"}`, "10.0.0.0/8"},
		"keys get key_1": {`{"apiKey":{"id":"key_1","versions":[{},{}],"effective":[{"permissions":["job.enqueue"],"queues":["mail.*"]}]}}`,
			`{"tenant":"acme","keyId":"key_1"}`, "may in all namespaces, queues mail.*: job.enqueue"},
		"keys revoke key_1":                     {`{}`, `{"tenant":"acme","keyId":"key_1"}`, "revoked"},
		"access explain job.enqueue --in prod":  {`{"allowed":true,"reason":"by a role"}`, `{"tenant":"acme","permission":"job.enqueue","scope":{"namespace":"prod"}}`, "allowed  by a role"},
		"access who-can job.read":               {`{"principals":[{"principalId":"usr_1","roles":["admin"]}]}`, `{"tenant":"acme","permission":"job.read","scope":{},"pageSize":200}`, "admin"},
		"domains list":                          {`{"domains":[{"id":"dom_1","name":"acme.test","state":"DOMAIN_STATE_RECORD_MISSING"}]}`, `{"tenant":"acme"}`, "record missing"},
		"domain create acme.test":               {`{"domain":{"id":"dom_1","txtName":"_corvo-challenge.acme.test","txtValue":"corvo-domain-verification=x"}}`, `{"tenant":"acme","name":"acme.test"}`, `_corvo-challenge.acme.test. TXT "corvo-domain-verification=x"`},
		"domains get acme.test":                 {`{"domain":{"id":"dom_1","name":"acme.test","problem":"gone"}}`, `{"tenant":"acme","domainId":"acme.test"}`, "gone"},
		"domains verify acme.test --wait 1s":    {`{"domain":{"id":"dom_1","state":"DOMAIN_STATE_VERIFIED"}}`, `{"tenant":"acme","domainId":"acme.test"}`, "verified"},
		"domains update dom_1 --connection sso": {`{"domain":{"id":"dom_1","connectionId":"sso"}}`, `{"tenant":"acme","domainId":"dom_1","connectionId":"sso","updateMask":"connectionId"}`, "sso"},
		"domains delete dom_1":                  {`{}`, `{"tenant":"acme","domainId":"dom_1"}`, "deleted"},
		"sso list":                              {`{"connections":[{"id":"sso_1","name":"Okta","type":"SSO_TYPE_SAML","lastTest":{"succeeded":true}}]}`, `{"tenant":"acme"}`, "saml"},
		"sso get Okta":                          {`{"connections":[{"id":"sso_1","name":"Okta","samlDetails":{"acsUrl":"https://a","spEntityId":"urn:us","warnings":["expires soon"]}}]}`, `{"tenant":"acme"}`, "expires soon"},
		"sso create Okta --issuer https://i --client-id c --map ou=a,o=b=admin --map ops=operator --scope x": {`{"connection":{"id":"sso_1"}}`,
			`{"tenant":"acme","name":"Okta","issuer":"https://i","clientId":"c","scopes":["x"],"type":"SSO_TYPE_OIDC","groupMappings":[{"group":"ou=a,o=b","role":"admin"},{"group":"ops","role":"operator"}]}`, "sso_1"},
		"sso create Entra --saml --metadata-url https://m --sign-requests": {`{"connection":{"id":"sso_1","type":"SSO_TYPE_SAML"}}`,
			`{"tenant":"acme","name":"Entra","type":"SSO_TYPE_SAML","saml":{"metadataUrl":"https://m","signRequests":true}}`, "saml"},
		"sso update sso_1 --default-role viewer --want-encrypted": {`{"connection":{"id":"sso_1","staged":{"issuer":"i"}}}`,
			`{"tenant":"acme","connectionId":"sso_1","defaultRole":"viewer","saml":{"wantEncrypted":true},"updateMask":"defaultRole,saml.wantEncrypted"}`, "not in effect yet"},
		"sso enable sso_1":                                  {`{"connection":{"id":"sso_1","enabled":true}}`, `{"tenant":"acme","connectionId":"sso_1","enabled":true,"updateMask":"enabled"}`, "true"},
		"sso disable sso_1":                                 {`{"connection":{"id":"sso_1"}}`, `{"tenant":"acme","connectionId":"sso_1","updateMask":"enabled"}`, "false"},
		"sso test sso_1":                                    {`{"url":"https://start"}`, `{"tenant":"acme","connectionId":"sso_1"}`, "https://start"},
		"sso switch sso_1":                                  {`{"connection":{"id":"sso_1"}}`, `{"tenant":"acme","connectionId":"sso_1"}`, "sso_1"},
		"sso discard sso_1":                                 {`{"connection":{"id":"sso_1"}}`, `{"tenant":"acme","connectionId":"sso_1"}`, "sso_1"},
		"sso rotate-key sso_1":                              {`{"connection":{"id":"sso_1","samlDetails":{"spNextCertificate":"-----BEGIN CERTIFICATE-----"}}}`, `{"tenant":"acme","connectionId":"sso_1"}`, "-----BEGIN"},
		"sso rotate-key sso_1 --finish":                     {`{"connection":{"id":"sso_1"}}`, `{"tenant":"acme","connectionId":"sso_1","finish":true}`, "sso_1"},
		"sso delete sso_1":                                  {`{}`, `{"tenant":"acme","connectionId":"sso_1"}`, "deleted"},
		"directory get sso_1":                               {`{"sync":{"endpointUrl":"https://scim","users":3,"activeUsers":2}}`, `{"tenant":"acme","connectionId":"sso_1"}`, "3, 2 active"},
		"directory tokens sso_1":                            {`{"tokens":[{"id":"key_1","prefix":"corvo_scim_a"}]}`, `{"tenant":"acme","connectionId":"sso_1"}`, "corvo_scim_a"},
		"directory create-token sso_1":                      {`{"secret":"corvo_scim_x"}`, `{"tenant":"acme","connectionId":"sso_1"}`, "corvo_scim_x"},
		"directory update-token key_1 --expires 2099-06-01": {`{"token":{"id":"key_1","expiresAt":"2099-06-01T00:00:00Z"}}`, `{"tenant":"acme","tokenId":"key_1","expiresAt":"2099-06-01T00:00:00Z"}`, "valid until 2099"},
		"directory revoke-token key_1":                      {`{}`, `{"tenant":"acme","tokenId":"key_1"}`, "revoked"},
		"access review --csv":                               {`{"principals":[{"principalId":"usr_1","principal":"=1+1"}]}`, `{"tenant":"acme","pageSize":200}`, "usr_1,'=1+1,"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var body []byte
			url := answer(t, func(w http.ResponseWriter, r *http.Request) {
				read, err := decodeCall(r)
				if err != nil || r.Header.Get("Authorization") != "Bearer corvo_mg_test" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				body = read
				encodeAnswer(w, r, c.answers)
			})
			do := func(more ...string) outcome {
				var stdout, stderr bytes.Buffer
				env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
				args := append(append(strings.Fields(line), "--tenant", "acme"), more...)
				exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
				return outcome{exit, stdout.String(), stderr.String()}
			}
			if got := do(); got.exit != ExitOK || !sameJSON(string(body), c.body) || !strings.Contains(got.stdout, c.shows) {
				t.Errorf("asked %s; %+v", body, got)
			}
			if got := do("-o", "json"); !strings.HasSuffix(line, "--csv") && !json.Valid([]byte(got.stdout)) {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

// What follows beside the answer is for people, so that it stands apart from the output.
func TestAccess_NoticesGoToStderr(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		encodeAnswer(w, r, `{"roleBinding":{"id":"bnd_1"},"notices":["Only owners can change Okta now."]}`)
	})
	env := map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": url}
	got := newHome(t).run(t, "", env, "bindings", "create", "usr_1", "owner", "--tenant", "acme", "-o", "json")
	if got.exit != ExitOK || !strings.Contains(got.stderr, "Only owners can change Okta now.\n") || !json.Valid([]byte(got.stdout)) {
		t.Errorf("%+v", got)
	}
}

// A refusal that a second factor lifts says how to show it.
func TestAccess_ARefusalForASecondFactorTellsTheCommand(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"STEP_UP_REQUIRED", "SECOND_FACTOR_REQUIRED"} {
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			refused := connect.NewError(connect.CodePermissionDenied, errors.New("no"))
			if detail, err := connect.NewErrorDetail(&cloudv1.Refusal{Reason: reason}); err == nil {
				refused.AddDetail(detail)
			}
			_ = connect.NewErrorWriter().Write(w, r, refused) // The client sees that nothing came.
		})
		env := map[string]string{"CORVO_TOKEN": "corvo_cli_test", "CORVO_ENDPOINT": url}
		got := newHome(t).run(t, "", env, "members", "remove", "usr_1", "--tenant", "acme")
		if got.exit != ExitAuth || !strings.Contains(got.stderr, "corvo session prove") {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

func TestAccess_WithoutASessionOrAChangeIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if got := h.run(t, "", nil, "roles", "list"); got.exit != ExitAuth || !strings.Contains(got.stderr, "corvo login") {
		t.Errorf("%+v", got)
	}
	env := map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": "http://127.0.0.1:1"}
	for _, line := range []string{"roles update x", "keys update key_1", "members update usr_1", "keys create k --kind pat", "trusts create x", "trusts create x --github a/b --gitlab a/b", "trusts create x --github a/b --condition ref", "trusts update x", "trusts update x --github a/b --gitlab a/b", "trusts update x --condition ref", "sso update sso_1", "sso create x --map y", "directory update-token key_1"} {
		if got := h.run(t, "", env, strings.Fields(line)...); got.exit != ExitUsage {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// What an empty secret does would be the server's guess.
func TestSso_AnUnsetClientSecretIsNotSent(t *testing.T) {
	t.Parallel()
	env := map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": "http://127.0.0.1:1"}
	if got := newHome(t).run(t, "", env, "sso", "update", "sso_1", "--name", "x", "--client-secret"); got.exit != ExitUsage || !strings.Contains(got.stderr, envClientSecret) {
		t.Errorf("%+v", got)
	}
}

// messages are the request and the response of the method that a call names.
func messages(path string) (in, out proto.Message, _ error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.Trim(path, "/"), "/", ".")))
	if err != nil {
		return nil, nil, err
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, nil, fmt.Errorf("%s is no method", path)
	}
	return dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output()), nil
}

// decodeCall is a call as JSON.
func decodeCall(r *http.Request) ([]byte, error) {
	in, _, err := messages(r.URL.Path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(raw, in); err != nil {
		return nil, err
	}
	return protojson.Marshal(in)
}

// encodeAnswer says what of the text the method's answer has.
func encodeAnswer(w http.ResponseWriter, r *http.Request, text string) {
	_, out, err := messages(r.URL.Path)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(text), out)
	}
	raw, marshalErr := proto.Marshal(out)
	if err = errors.Join(err, marshalErr); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/proto")
	_, _ = w.Write(raw) // The command says what it got.
}
