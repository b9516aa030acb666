import { createClient } from "@connectrpc/connect";
import { ApiKeyService } from "~/gen/corvo/cloud/v1/apikey_pb";
import { AuditService } from "~/gen/corvo/cloud/v1/audit_pb";
import { MemberService } from "~/gen/corvo/cloud/v1/member_pb";
import { SignupService } from "~/gen/corvo/cloud/v1/signup_pb";
import { SsoService } from "~/gen/corvo/cloud/v1/sso_pb";
import { transport } from "./control";

/** The services that single pages use. Every request names its tenant. */
export const admin = {
  signup: createClient(SignupService, transport),
  keys: createClient(ApiKeyService, transport),
  members: createClient(MemberService, transport),
  sso: createClient(SsoService, transport),
  audit: createClient(AuditService, transport),
} as const;
