package upgrade

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// nextVersion of the cell is the one after cellversion.Highest.
const nextVersion = 4

// next makes that version, which no program speaks yet: an enqueue gets a part
// that says where it came from, and from then on its job keeps that as its trace context, so
// that both a part of a command and a rule of apply depend on the version. A real version is
// written like this. Each text is in the product's
// sources once, in whatever file.
var next = []struct{ old, new string }{
	{"Highest Version = 3\n", "Highest Version = 4\n"},

	// The command: a bit after the last one.
	{"	enqueueDependsOn\n)", "	enqueueDependsOn\n	enqueueOrigin\n)"},
	{"	OnDependency   DependencyPolicy // Matters with DependsOn.\n", "	OnDependency DependencyPolicy\n	Origin string\n"},
	{"		enqueueDependsOn.If(len(c.DependsOn) > 0 || c.OnDependency != 0)", "		enqueueDependsOn.If(len(c.DependsOn) > 0 || c.OnDependency != 0) | enqueueOrigin.If(c.Origin != \"\")"},
	{"		codec.Enum(f, &c.OnDependency, dependencyPoliciesEnd)\n	}\n", "		codec.Enum(f, &c.OnDependency, dependencyPoliciesEnd)\n	}\n	if parts.Has(enqueueOrigin) {\n		f.Text(&c.Origin)\n	}\n"},
	{"	on((*entry).enqueue,\n", "	on((*entry).enqueue,\n		needs(func(c *command.Enqueue) cellversion.Version {\n			if c.Origin != \"\" {\n				return 4\n			}\n			return 0\n		}),\n"},

	// Who proposes: from version 4 on, and not before.
	{"	b.cmds = append(b.cmds, q.After...)\n", "	if t.shard.group.Version() >= 4 {\n		for _, c := range q.After {\n			if e, ok := c.(*command.Enqueue); ok {\n				e.Origin = \"from a caller\"\n			}\n		}\n	}\n	b.cmds = append(b.cmds, q.After...)\n"},

	// What apply stores depends on the version in effect.
	{"	x.txn.Set(x.m.space.Job(c.NS, keys.Body, c.ID),", "	if x.version >= 4 {\n		body.TraceParent = c.Origin\n	}\n	x.txn.Set(x.m.space.Job(c.NS, keys.Body, c.ID),"},
}

// edited is every file of a folder that next changes, as it is then.
func edited(root string) (map[string]string, error) {
	texts, changed := map[string]string{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range next {
		var at []string
		for path, text := range texts {
			for range strings.Count(text, e.old) {
				at = append(at, path)
			}
		}
		if len(at) != 1 {
			return nil, fmt.Errorf("the test's next version does not fit the sources: %q stands in %q, want one place; change services/e2e/upgrade/next_test.go", e.old, at)
		}
		texts[at[0]] = strings.Replace(texts[at[0]], e.old, e.new, 1)
		changed[at[0]] = texts[at[0]]
	}
	return changed, nil
}
