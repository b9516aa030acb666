import { createClient } from "@connectrpc/connect";
import { TrustService } from "~/gen/corvo/cloud/v1/exchange_pb";
import { GroupService, ServiceAccountService } from "~/gen/corvo/cloud/v1/principal_pb";
import { AccessService } from "~/gen/corvo/cloud/v1/review_pb";
import { RoleService } from "~/gen/corvo/cloud/v1/role_pb";
import { transport } from "./control";

/** The services about who may do what. Apart from admin.ts, which the first page loads. */
export const principals = {
  roles: createClient(RoleService, transport),
  accounts: createClient(ServiceAccountService, transport),
  trusts: createClient(TrustService, transport),
  groups: createClient(GroupService, transport),
  access: createClient(AccessService, transport),
} as const;
