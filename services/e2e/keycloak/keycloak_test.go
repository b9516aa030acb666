package keycloak_test

import (
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// One service for all: each test has a tenant and a realm of its own.
func TestKeycloak(t *testing.T) {
	t.Parallel()
	keycloak.start(t) // Or the test ends here.
	up := rig.StartUp(t, t.TempDir())
	for name, test := range map[string]func(*testing.T, *rig.Up){
		"OIDC/RolesAreThoseOfTheGroupsAtEverySignIn": oidcRolesAreThoseOfTheGroupsAtEverySignIn,
		"OIDC/RolledKeysAreReadOnce":                 oidcRolledKeysAreReadOnce,
		"OIDC/AWrongSecretIsToldInWords":             oidcAWrongSecretIsToldInWords,
		"OIDC/EveryAlgorithmOfKeycloak":              oidcEveryAlgorithmOfKeycloak,
		"SAML/EveryFormOfKeycloak":                   samlEveryFormOfKeycloak,
		"OIDC/ACodeIsUsedOnce":                       oidcACodeIsUsedOnce,
		"SAML/SignedAndEncryptedBothWays":            samlSignedAndEncryptedBothWays,
		"SAML/EveryCipherOfKeycloak":                 samlEveryCipherOfKeycloak,
		"SAML/TheCertificateIsRolledWithoutAGap":     samlTheCertificateIsRolledWithoutAGap,
		"SAML/AResponseIsUsedOnce":                   samlAResponseIsUsedOnce,
		"SAML/FromTheProvidersPage":                  samlFromTheProvidersPage,
		"SAML/LogoutIsRefused":                       samlLogoutIsRefused,
		"Chromium/OIDC":                              chromiumOIDC,
		"Chromium/SAML":                              chromiumSAML,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, up)
		})
	}
}
