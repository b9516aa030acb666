/** What to do at a directory, in its own words. */
interface Directory {
  value: string;
  label: string;
  /** What follows the base URL there. */
  suffix?: string;
  steps: string[];
}

/** The first one is any other. */
export const directories: readonly Directory[] = [
  {
    value: "",
    label: "Another directory",
    steps: [
      "Turn on provisioning by SCIM 2.0 in the application that your people sign in with.",
      "Enter the base URL, and the token as bearer token.",
      "Create, update and deactivate users, and push groups with their members.",
      "Assign people and groups.",
    ],
  },
  {
    value: "okta",
    label: "Okta",
    steps: [
      "A SAML application: General, App Settings, Edit, Provisioning: SCIM. An OpenID Connect application can't provision: add SCIM 2.0 Test App (Header Auth) from the catalog beside it.",
      "Provisioning, Integration, Edit: SCIM connector base URL. Unique identifier field for users: userName. Authentication Mode: HTTP Header, with the token.",
      "Supported provisioning actions: Push New Users, Push Profile Updates, Push Groups. Test Connector Configuration, then Save.",
      "Provisioning, To App, Edit: turn on Create Users, Update User Attributes, Deactivate Users.",
      "Assignments: assign people and groups. Push Groups: push the groups that get roles here.",
    ],
  },
  {
    value: "entra",
    label: "Microsoft Entra ID",
    suffix: "?aadOptscim062020",
    steps: [
      "Enterprise applications, your application, Provisioning, New configuration: Tenant URL is the base URL as it stands here, Secret Token the token. Test Connection, then Create.",
      "Attribute mapping, Provision Microsoft Entra ID Users: map objectId to externalId, matched by userName.",
      "Attribute mapping, Provision Microsoft Entra ID Groups: on.",
      "Users and groups: assign people and groups. Overview: Start provisioning.",
      "Changes arrive about every 40 min. Provision on demand sends one person at once.",
    ],
  },
  {
    value: "jumpcloud",
    label: "JumpCloud",
    steps: [
      "SSO Applications, your application, Identity Management: SCIM 2.0, with the base URL and the token as Token Key. Test Connection.",
      "Turn on management of User Groups, then Activate.",
      "User Groups: select the groups, then Save.",
    ],
  },
];
