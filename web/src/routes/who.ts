// The pages about who may do what share most of their parts: one chunk.
export { AccessPage } from "./settings-access";
export { GroupsPage } from "./settings-groups";
export { RolesPage } from "./settings-roles";
export { ServiceAccountsPage } from "./settings-service-accounts";
