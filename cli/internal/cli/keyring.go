package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

// savedSession is where the token of a session is kept.
type savedSession struct {
	Storage string `toml:"storage"` // keyring or file
	Token   string `toml:"token,omitempty"`
}

// Where a session may be kept.
const (
	inKeyring = "keyring"
	inFile    = "file"
)

const (
	keyringService = "corvo"
	// keyringPatience is for keyrings that ask nobody who is there.
	keyringPatience = 30 * time.Second
	// probeAccount is written and deleted to see whether there is a keyring.
	probeAccount = "probe"
)

var errKeyringSilent = errors.New("the keyring didn't respond")

// patiently runs a call of the keyring, which may wait for a dialog that nobody sees.
func patiently(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(keyringPatience):
		return errKeyringSilent
	}
}

// probeKeyring reports why there is no keyring, before somebody signs in for nothing.
func probeKeyring() error {
	return patiently(func() error {
		if err := keyring.Set(keyringService, probeAccount, "probe"); err != nil {
			return err
		}
		return keyring.Delete(keyringService, probeAccount)
	})
}

// noKeyring says how to do without.
func (s *session) noKeyring(err error) *Failure {
	path, pathErr := s.profilePath()
	if pathErr != nil {
		path = "your profile"
	}
	return &Failure{Exit: ExitFail, Code: "NO_KEYRING", What: "can't keep your session in this machine's keyring", Why: err.Error(),
		Fix: "add --insecure-storage to keep it in " + path + ", unencrypted and readable only by you"}
}

// keepSession puts a token where storage says.
func keepSession(all *profiles, account, token, storage string) error {
	saved := savedSession{Storage: storage}
	if storage == inFile {
		saved.Token = token
	} else if err := patiently(func() error { return keyring.Set(keyringService, account, token) }); err != nil {
		return fmt.Errorf("write to the keyring: %w", err)
	}
	all.Sessions[account] = saved
	return nil
}

// sessionToken reads the token of an account's session; empty if there is none.
func (s *session) sessionToken(account string) (token string, _ error) {
	all, err := s.allProfiles()
	if err != nil {
		return "", err
	}
	saved, ok := all.Sessions[account]
	if !ok || saved.Storage == inFile {
		return saved.Token, nil
	}
	err = patiently(func() (err error) {
		token, err = keyring.Get(keyringService, account)
		return err
	})
	if errors.Is(err, keyring.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", &Failure{Exit: ExitAuth, Code: "NO_KEYRING", What: "can't read your session from this machine's keyring", Why: err.Error(),
			Fix: "unlock the keyring, or sign in again with `corvo login --insecure-storage`"}
	}
	return token, nil
}

// dropSession forgets an account's session on this machine. Profiles that have keys stay.
func dropSession(all *profiles, account string) error {
	if all.Sessions[account].Storage == inKeyring {
		err := patiently(func() error { return keyring.Delete(keyringService, account) })
		if err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return fmt.Errorf("delete from the keyring: %w", err)
		}
	}
	delete(all.Sessions, account)
	for name, p := range all.Profiles {
		if p.account() != account {
			continue
		}
		p.User = ""
		all.Profiles[name] = p
		if p.APIKey == "" && p.Token == "" {
			delete(all.Profiles, name)
		}
	}
	return nil
}
