import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AuthService } from "~/gen/corvo/cloud/v1/auth_pb";
import { type Refusal, RefusalSchema } from "~/gen/corvo/cloud/v1/refusal_pb";
import { NamespaceService, TenantService } from "~/gen/corvo/cloud/v1/tenant_pb";
import { DataError } from "./data-error";
import { isUnreachable, part, reach, Unreachable } from "./reach";

/** Asks for the second factor where a dangerous call wants it, and repeats the call. */
const proved: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (refusalReason(error) !== "STEP_UP_REQUIRED") throw error;
    const { stepUp } = await part(() => import("~/features/account/step-up"));
    if (!(await stepUp())) throw error;
    return await next(request);
  }
};

// The control API lies at the console's own origin; the session is a cookie that
// scripts cannot read, so there is nothing to add to a call.
export const transport = createConnectTransport({ baseUrl: "/", fetch: reach, interceptors: [proved] });

/** What every page needs. The other services are in admin.ts, so that only their pages load them. */
export const control = {
  auth: createClient(AuthService, transport),
  tenants: createClient(TenantService, transport),
  namespaces: createClient(NamespaceService, transport),
} as const;

export function isUnauthenticated(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Unauthenticated;
}

export function isNotFound(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.NotFound;
}

/** The caller lacks the permission; retrying does not help. */
export function isDenied(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.PermissionDenied;
}

/** A refusal by the server; everything else is a bug of ours or a lost connection. */
export function isRefusal(error: unknown): boolean {
  return (error instanceof ConnectError && error.code !== Code.Canceled) || error instanceof DataError;
}

function refusal(error: unknown): Refusal | undefined {
  return error instanceof ConnectError ? error.findDetails(RefusalSchema)[0] : undefined;
}

/** The server's complaint about each field of a request, by the field's name. */
export function fieldErrors(error: unknown): Record<string, string> {
  if (error instanceof DataError) return error.fields;
  return Object.fromEntries(
    (refusal(error)?.fields ?? []).map((field) => [field.name, sentence(field.problem)]),
  );
}

/** A refusal that is about no field, in words; undefined if there is none. */
export function otherError(error: unknown): string | undefined {
  return error && Object.keys(fieldErrors(error)).length === 0 ? describeError(error) : undefined;
}

/** The stable word of a refusal, for example LAST_OWNER; empty if there is none. */
export function refusalReason(error: unknown): string {
  return refusal(error)?.reason ?? "";
}

/** An error in words for people: what happened and what to do. */
export function describeError(error: unknown): string {
  if (isUnreachable(error)) return new Unreachable().message;
  if (error instanceof ConnectError) {
    const { help } = refusal(error) ?? {};
    if (help) return `${sentence(error.rawMessage)} ${sentence(help)}`;
    if (error.code === Code.Unavailable) return "Corvo isn't responding. Try again in a few seconds.";
    if (error.code === Code.DeadlineExceeded) return "Corvo took too long to respond. Try again.";
    if (error.code === Code.Unknown)
      return "Something went wrong on the way to Corvo. Try again in a few seconds.";
    return sentence(error.rawMessage || error.message);
  }
  if (error instanceof Error) return sentence(error.message);
  return "Something went wrong. Try again.";
}

/** Text of the server as a sentence. */
export function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
