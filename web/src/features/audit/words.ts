import type { Option } from "~/components/ui/option";
import type { AuditEvent } from "~/gen/corvo/cloud/v1/audit_pb";
import { plural } from "~/lib/numbers";
import { retentionText } from "~/lib/retention";

/** Kinds of actions to narrow the log by: what an action begins with. */
const actionGroups: readonly Option[] = [
  { value: "", label: "All actions" },
  { value: "queue.", label: "Queues" },
  { value: "job", label: "Jobs" },
  { value: "schedule.", label: "Schedules" },
  { value: "budget.", label: "Budgets" },
  { value: "approval_policy.", label: "Approval policies" },
  { value: "namespace.", label: "Namespaces" },
  { value: "key.", label: "API keys" },
  { value: "member.", label: "Members" },
  { value: "invitation.", label: "Invitations" },
  { value: "service_account.", label: "Service accounts" },
  { value: "trust.", label: "Trusts" },
  { value: "token_exchange.", label: "Refused tokens" },
  { value: "group.", label: "Groups" },
  { value: "role", label: "Roles" },
  { value: "domain.", label: "Domains" },
  { value: "sso.", label: "Single sign-on" },
  { value: "directory", label: "Directory sync" },
  { value: "policy.", label: "Sign-in policy" },
  { value: "break_glass_codes.", label: "Break-glass codes" },
  { value: "session.", label: "Sign-ins" },
  { value: "sign_in.", label: "Refused sign-ins" },
  { value: "access.", label: "Refused calls" },
  { value: "audit_sink.", label: "Audit sinks" },
  { value: "factor.", label: "Second factors" },
  { value: "billing.", label: "Billing" },
  { value: "spend_limit.", label: "Spend limit" },
  { value: "plan.", label: "Plan" },
  { value: "override.", label: "Entitlement overrides" },
  { value: "hold.", label: "Held jobs" },
  { value: "subscription.", label: "Subscription" },
  { value: "tenant.", label: "Tenant" },
];

/** The kinds, and the one action that a link may name. */
export function actionOptions(chosen: string): readonly Option[] {
  if (actionGroups.some((group) => group.value === chosen)) return actionGroups;
  return [...actionGroups, { value: chosen, label: actionName(chosen) }];
}

/** What was done where the rule of actionName does not give the word that people use. */
const names: Record<string, string> = {
  "access.refuse": "Call refused",
  "audit.cut": "Entries missing",
  "audit_sink.test": "Audit sink tested",
  "billing.checkout": "Checkout opened",
  "billing.portal": "Payment portal opened",
  "billing.update": "Billing emails changed",
  "break_glass_codes.create": "Break-glass codes created",
  "break_glass_codes.refuse": "Break-glass code refused",
  "break_glass_codes.use": "Break-glass code used",
  "domain.create": "Domain added",
  "domain.find_record": "Domain record found again",
  "domain.miss_record": "Domain record missing",
  "domain.unverify": "Domain no longer verified",
  "factor.create": "Second factor added",
  "factor.delete": "Second factor removed",
  "group.add_members": "Group members added",
  "group.remove_members": "Group members removed",
  "hold.clear": "Jobs no longer held",
  "hold.set": "Jobs held",
  "invitation.create": "Invitation sent",
  "invitation.delete": "Invitation withdrawn",
  "key.notice": "API key's end announced",
  "jobs.change_priority": "Job priority changed in bulk",
  "jobs.requeue": "Dead jobs retried in bulk",
  "key.rotate": "API key secret rotated",
  "member.create": "Member joined",
  "member.delete": "Member removed",
  "member.update": "Member roles changed",
  "override.end": "Entitlement override ended",
  "override.remove": "Entitlement override removed",
  "override.set": "Entitlement override set",
  "plan.cancel_change": "Change of plan taken back",
  "plan.keep": "Change of plan not made",
  "plan.schedule_change": "Change of plan scheduled",
  "policy.update": "Sign-in policy changed",
  "queue.requeue": "All dead jobs retried",
  "queue.update": "Queue settings changed",
  "recovery_codes.create": "Recovery codes replaced",
  "recovery_codes.use": "Recovery code used",
  "role_binding.create": "Role given",
  "role_binding.delete": "Role taken away",
  "session.create": "Signed in",
  "session.end": "Session revoked",
  "session.end_all": "Signed out everywhere",
  "sign_in.refuse": "Sign-in refused",
  "token_exchange.refuse": "Token not accepted",
  "sso.create": "Single sign-on set up",
  "sso.create_key": "Next SAML key created",
  "sso.discard": "Single sign-on changes discarded",
  "sso.switch": "Single sign-on turned on or off",
  "sso.switch_key": "SAML key replaced",
  "subscription.update": "Subscription state changed",
};

const nouns: Record<string, string> = { key: "API key", sso: "Single sign-on" };

/** Participles that are not the verb with "ed". */
const participles: Record<string, string> = {
  cancel: "cancelled",
  hold: "held",
  run: "run now",
  set: "saved",
  update: "changed",
};

/** What was done, in words: "job.retry" is "Job retried", "jobs.retry" is "Jobs retried in bulk". */
export function actionName(action: string): string {
  const [kind = "", verb] = action.split(".");
  const name = names[action];
  if (name || !verb) return name ?? action;
  const noun = nouns[kind] ?? kind.charAt(0).toUpperCase() + words(kind.slice(1));
  const past =
    participles[verb] ??
    words(verb)
      .replace(/([^aeiou])y$/, "$1i")
      .replace(/e?$/, "ed");
  return `${noun} ${past}${kind === "jobs" ? " in bulk" : ""}`;
}

/** What it was done to, as the line below the action; empty if there is nothing to add. */
export function targetOf(event: AuditEvent): { kind: string; name: string } {
  const affected = afterOf(event, "affected");
  if (event.targetType === "jobs")
    return { kind: "", name: typeof affected === "number" ? plural(affected, "job") : "" };
  if (event.targetType === "audit")
    return { kind: "", name: typeof affected === "number" ? plural(affected, "entry", "entries") : "" };
  const name = namedByChange(event) ? String(afterOf(event, "name")) : event.target || event.targetId;
  // An id begins with what it is the id of.
  return { kind: isId.test(name) ? "" : words(event.targetType), name };
}

const short = /\b(id|ids|sso|url|usd)\b/g;
const spelled: Record<string, string> = { id: "ID", ids: "IDs", sso: "SSO", url: "URL", usd: "USD" };

/** "per_job_usd" → "per job USD" */
function words(name: string): string {
  return name.replaceAll("_", " ").replace(short, (word) => spelled[word] ?? word);
}

const isId = /^[a-z]+_[0-9A-Z]{26}$/;

/** Whether the name of the target is among the changes only. */
function namedByChange(event: AuditEvent): boolean {
  return Boolean(event.targetId) && event.target === event.targetId && Boolean(afterOf(event, "name"));
}

/** A sentence that explains an unusual entry. */
export function caveatOf(event: AuditEvent): { label: string; text: string } | undefined {
  if (event.action === "audit.cut")
    return {
      label: "Log incomplete",
      text: "These entries were dropped to save space before they reached this log.",
    };
  if (afterOf(event, "interrupted") === true)
    return {
      label: "Interrupted",
      text: "A node stopped before this was finished. The jobs counted here were changed.",
    };
  return undefined;
}

/** A change of one field as text. */
export interface FieldChange {
  field: string;
  before: string;
  after: string;
}

// Shown elsewhere on the page.
const shownElsewhere: Record<string, readonly string[]> = {
  jobs: ["affected"],
  audit: ["affected"],
};

const fieldNames: Record<string, string> = {
  affected: "jobs changed",
  job_ids: "jobs selected",
  left_as_they_were: "not changed",
};

/** The fields that an event changed, with their values before and after. */
export function changesOf(event: AuditEvent): FieldChange[] {
  return Object.entries(event.changes ?? {})
    .filter(([field]) => field !== "interrupted" && !shownElsewhere[event.targetType]?.includes(field))
    .filter(([field]) => field !== "name" || !namedByChange(event))
    .map(([field, change]) => {
      const { before, after } = (change ?? {}) as { before?: unknown; after?: unknown };
      return {
        field: fieldNames[field] ?? words(field),
        before: field === "retention" ? kept(before) : text(before),
        after: field === "retention" ? kept(after) : text(after),
      };
    });
}

/** A namespace's retention; what was not set is the plan's. */
function kept(value: unknown): string {
  const set = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  return retentionText(set) || "plan default";
}

function afterOf(event: AuditEvent, field: string): unknown {
  return (event.changes?.[field] as { after?: unknown } | undefined)?.after;
}

function text(value: unknown): string {
  if (value === undefined || value === null || value === "" || value === "unspecified") return "–";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(text).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
