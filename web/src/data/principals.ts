import { createClient } from "@connectrpc/connect";
import { GroupService, ServiceAccountService } from "~/gen/corvo/cloud/v1/principal_pb";
import { AccessService } from "~/gen/corvo/cloud/v1/review_pb";
import { RoleService } from "~/gen/corvo/cloud/v1/role_pb";
import { transport } from "./control";

/** The services about who may do what. Apart from admin.ts, which the first page loads. */
export const principals = {
  roles: createClient(RoleService, transport),
  accounts: createClient(ServiceAccountService, transport),
  groups: createClient(GroupService, transport),
  access: createClient(AccessService, transport),
} as const;
