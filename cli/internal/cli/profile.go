package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// profile is one tenant that this person works with, as kept in config.toml.
type profile struct {
	URL       string `toml:"url"`
	Tenant    string `toml:"tenant,omitempty"`
	Namespace string `toml:"namespace,omitempty"`
	APIKey    string `toml:"api_key,omitempty"`
	// Endpoint and Token are the control plane's, for `corvo whoami` and Terraform.
	Endpoint string `toml:"endpoint,omitempty"`
	Token    string `toml:"token,omitempty"`
	// User is who signed in with `corvo login`; their session goes before the keys.
	User string `toml:"user,omitempty"`
}

// profiles is the whole file.
type profiles struct {
	// Current names the profile that commands use when neither flag nor variable
	// says where to go; Previous is the one before it.
	Current  string             `toml:"current"`
	Previous string             `toml:"previous,omitempty"`
	Profiles map[string]profile `toml:"profile"`
	// Sessions are those of `corvo login`, by account: several profiles share one.
	Sessions map[string]savedSession `toml:"session,omitempty"`
}

// account is whose session a profile uses, and where; empty without one.
func (p profile) account() string {
	if p.User == "" {
		return ""
	}
	return p.User + " at " + p.Endpoint
}

// choose makes a profile the current one.
func (p *profiles) choose(name string) {
	if p.Current != name {
		p.Previous, p.Current = p.Current, name
	}
}

// profilePath is $XDG_CONFIG_HOME/corvo/config.toml, by default under ~/.config.
func (s *session) profilePath() (string, error) {
	if dir := s.proc.Env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "corvo", "config.toml"), nil
	}
	home := s.proc.Env("HOME")
	if home == "" {
		return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set")
	}
	return filepath.Join(home, ".config", "corvo", "config.toml"), nil
}

func readProfiles(path string) (profiles, error) {
	var p profiles
	_, err := toml.DecodeFile(path, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return profiles{}, nil
	}
	if err != nil {
		return profiles{}, fmt.Errorf("read %s: %w", path, err)
	}
	return p, nil
}

// currentProfile is the one in use; the zero profile if there is none, or if --server
// or CORVO_URL say where to go: the key of one place is never sent to another.
func (s *session) currentProfile() (profile, error) {
	if s.server != "" || s.proc.Env("CORVO_URL") != "" {
		return profile{}, nil
	}
	return s.savedProfile()
}

// savedProfile is the file's current one, whatever flags and variables say.
func (s *session) savedProfile() (profile, error) {
	all, err := s.allProfiles()
	return all.Profiles[all.Current], err
}

// allProfiles is what the file has; nothing if there is nowhere to keep one.
func (s *session) allProfiles() (profiles, error) {
	path, err := s.profilePath()
	if err != nil {
		return profiles{}, nil
	}
	all, err := readProfiles(path)
	if err != nil {
		return profiles{}, &Failure{Exit: ExitUsage, Code: "PROFILE", What: "can't read your profile", Why: err.Error(),
			Fix: "fix or delete the file, or set CORVO_URL and CORVO_API_KEY"}
	}
	return all, nil
}

// nameOf is the name of a tenant's profile: its own, or one with a number if that is of a
// tenant of another service, whose keys nobody can show again.
func (p *profiles) nameOf(made profile) string {
	for name, n := made.Tenant, 2; ; name, n = fmt.Sprintf("%s-%d", made.Tenant, n), n+1 {
		old, taken := p.Profiles[name]
		if !taken || old.Endpoint == made.Endpoint && cmp.Or(old.Tenant, name) == made.Tenant {
			return name
		}
	}
}

// tellName says why a profile isn't named like its tenant.
func (s *session) tellName(all *profiles, name, tenant string) {
	if name != tenant {
		other := all.Profiles[tenant]
		s.talkf("The profile of %s is named %s: the profile %[1]s is a tenant of %[3]s.", tenant, name, cmp.Or(other.Endpoint, other.URL, "another service"))
	}
}

// saveProfile adds or replaces the profile of a tenant and makes it the current one. The
// file holds keys, so only its owner may read it.
func (s *session) saveProfile(p profile) (string, error) {
	return s.changeProfiles(func(all *profiles) error {
		name := all.nameOf(p)
		s.tellName(all, name, p.Tenant)
		all.Profiles[name] = p
		all.choose(name)
		return nil
	})
}

// changeProfiles rewrites the file, and says where it is.
func (s *session) changeProfiles(change func(*profiles) error) (string, error) {
	path, err := s.profilePath()
	if err != nil {
		return "", err
	}
	all, err := readProfiles(path)
	if err != nil {
		return "", err
	}
	if all.Profiles == nil {
		all.Profiles = map[string]profile{}
	}
	if all.Sessions == nil {
		all.Sessions = map[string]savedSession{}
	}
	if err := change(&all); err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(all); err != nil {
		return "", fmt.Errorf("encode profiles: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, replaceFile(path, text.Bytes())
}

// replaceFile writes a file whole or not at all, readable by its owner only.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".corvo-*") // Mode 0600.
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // Gone already when the rename was done.
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
