import type { Option } from "~/components/ui/select";
import type { AuditEvent } from "~/gen/corvo/cloud/v1/audit_pb";
import { plural } from "~/lib/numbers";

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
  { value: "sso.", label: "Single sign-on" },
  { value: "session.", label: "Sign-ins" },
  { value: "tenant.", label: "Tenant" },
];

/** The kinds, and the one action that a link may name. */
export function actionOptions(chosen: string): readonly Option[] {
  if (actionGroups.some((group) => group.value === chosen)) return actionGroups;
  return [...actionGroups, { value: chosen, label: actionName(chosen) }];
}

const names: Record<string, string> = {
  "approval_policy.delete": "Approval policy deleted",
  "approval_policy.set": "Approval policy saved",
  "audit.cut": "Entries missing",
  "budget.delete": "Budget deleted",
  "budget.set": "Budget saved",
  "invitation.create": "Invitation sent",
  "invitation.delete": "Invitation withdrawn",
  "job.approve": "Job approved",
  "job.cancel": "Job cancelled",
  "job.delete": "Job deleted",
  "job.hold": "Job held",
  "job.move": "Job moved",
  "job.reject": "Job rejected",
  "job.replay": "Job replayed",
  "job.retry": "Job retried",
  "jobs.approve": "Jobs approved in bulk",
  "jobs.cancel": "Jobs cancelled in bulk",
  "jobs.change_priority": "Job priority changed in bulk",
  "jobs.delete": "Jobs deleted in bulk",
  "jobs.hold": "Jobs held in bulk",
  "jobs.move": "Jobs moved in bulk",
  "jobs.reject": "Jobs rejected in bulk",
  "jobs.requeue": "Dead jobs retried in bulk",
  "jobs.retry": "Jobs retried in bulk",
  "key.create": "API key created",
  "key.revoke": "API key revoked",
  "key.rotate": "API key secret rotated",
  "key.update": "API key changed",
  "member.create": "Member joined",
  "member.delete": "Member removed",
  "member.update": "Member role changed",
  "namespace.create": "Namespace created",
  "namespace.delete": "Namespace deleted",
  "namespace.update": "Namespace changed",
  "queue.clear": "Queue cleared",
  "queue.delete": "Queue deleted",
  "queue.drain": "Queue drained",
  "queue.pause": "Queue paused",
  "queue.requeue": "All dead jobs retried",
  "queue.resume": "Queue resumed",
  "queue.update": "Queue settings changed",
  "schedule.create": "Schedule created",
  "schedule.delete": "Schedule deleted",
  "schedule.pause": "Schedule paused",
  "schedule.resume": "Schedule resumed",
  "schedule.run": "Schedule run now",
  "schedule.update": "Schedule changed",
  "session.create": "Signed in",
  "session.end_all": "Signed out everywhere",
  "sso.create": "Single sign-on set up",
  "sso.delete": "Single sign-on deleted",
  "sso.discard": "Single sign-on changes discarded",
  "sso.switch": "Single sign-on turned on or off",
  "sso.update": "Single sign-on changed",
  "tenant.create": "Tenant created",
  "tenant.update": "Tenant changed",
};

/** What was done, in words; an action that this page does not know is shown as it is. */
export function actionName(action: string): string {
  return names[action] ?? action;
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

/** A sentence about an entry that is not what it seems. */
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

// What has a place of its own on the page.
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
        before: text(before),
        after: text(after),
      };
    });
}

function afterOf(event: AuditEvent, field: string): unknown {
  return (event.changes?.[field] as { after?: unknown } | undefined)?.after;
}

function text(value: unknown): string {
  if (value === undefined || value === null || value === "" || value === "unspecified") return "–";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(text).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
