/** What to do at a provider, in its own words. */
export interface Preset {
  value: string;
  label: string;
  steps: string[];
  /** How its issuer looks. */
  issuer: string;
  /** What to enter here differently than usual. */
  here?: string;
}

/** Providers of OpenID Connect whose pages we know. The first one is any other. */
export const oidcPresets: Preset[] = [
  {
    value: "",
    label: "Another provider",
    steps: [
      "Create a web application with the authorization code flow and a client secret.",
      "Allow the redirect URI below.",
      "Have it send the person's groups in the claim groups, in the ID token or the user info.",
    ],
    issuer: "https://login.example.com",
  },
  {
    value: "okta",
    label: "Okta",
    steps: [
      "Applications, Create App Integration: OIDC - OpenID Connect, Web Application.",
      "Sign-in redirect URIs: the redirect URI below. Assign the people who may sign in.",
      "Sign On, OpenID Connect ID Token: issuer Okta URL, groups claim type Filter, name groups, Matches regex .* or narrower.",
      "General: copy the client ID and secret.",
    ],
    issuer: "https://COMPANY.okta.com",
  },
  {
    value: "entra",
    label: "Microsoft Entra ID",
    steps: [
      "App registrations, New registration, this organizational directory only. Redirect URI: Web, the redirect URI below.",
      "Certificates & secrets, New client secret: copy its value, not its ID.",
      "Token configuration, Add groups claim: Groups assigned to the application, in the ID token.",
      "Overview: copy the application (client) ID and the directory (tenant) ID.",
    ],
    issuer: "https://login.microsoftonline.com/DIRECTORY-ID/v2.0",
    here: "Groups are object IDs: map those, not names.",
  },
  {
    value: "google",
    label: "Google Workspace",
    steps: [
      "Google Cloud console, OAuth consent screen, Audience: Internal. With External, anyone with a Google account could sign in.",
      "Clients, Create client: Web application. Authorized redirect URIs: the redirect URI below.",
      "Copy the client ID and secret.",
    ],
    issuer: "https://accounts.google.com",
    here: "Google sends no groups by OpenID Connect: choose a role for everyone else, or use SAML.",
  },
  {
    value: "keycloak",
    label: "Keycloak",
    steps: [
      "Clients, Create client: OpenID Connect, Client authentication on, Standard flow only.",
      "Valid redirect URIs: the redirect URI below.",
      "Client scopes, the dedicated scope, Add mapper, Group Membership: token claim name groups, Full group path off.",
      "Credentials: copy the client secret.",
    ],
    issuer: "https://HOST/realms/REALM",
  },
  {
    value: "jumpcloud",
    label: "JumpCloud",
    steps: [
      "SSO Applications, Add New Application, Custom Application: SSO with OIDC.",
      "Redirect URIs: the redirect URI below. Client authentication type: Client Secret Basic.",
      "Standard scopes Email and Profile; include the group attribute, named groups. Bind the user groups.",
      "Activate: copy the client ID and secret.",
    ],
    issuer: "https://oauth.id.jumpcloud.com/",
    here: "The issuer ends with a slash.",
  },
];
