package keycloak_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// In Chromium, with its own rules for cookies, redirects and forms from another site, a person
// types into Keycloak's form, lands in the console, and has the role of their group there.
func chromiumOIDC(t *testing.T, up *rig.Up) {
	c, r, conn := oidcConnection(t, up)
	c.inChromium(r, conn)
}

func chromiumSAML(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	c.inChromium(r, conn)
}

func (c *corvo) inChromium(r *realm, conn connection) {
	c.t.Helper()
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	c.person("Admin")
	r.leave("admins")
	c.person("Viewer")
}

// person is Ada in a new browser: web/e2e/keycloak says what she does.
func (c *corvo) person(role string) {
	c.t.Helper()
	sent, err := json.Marshal(object{"url": c.base, "tenant": c.name, "user": "ada", "password": password, "role": role})
	check(c.t, err)
	cmd := exec.CommandContext(c.t.Context(), "npx", "playwright", "test", "--config", "keycloak.config.ts", "--output", c.t.TempDir())
	cmd.Dir = filepath.Join(rig.Root(), "web", "e2e")
	cmd.Env = append(os.Environ(), "CORVO_KEYCLOAK_PERSON="+string(sent))
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("as %s, in Chromium (make test-keycloak builds the console and fetches what this needs): %v\n%s", role, err, out)
	}
}
