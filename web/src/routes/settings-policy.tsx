import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useRouteContext } from "@tanstack/react-router";
import { DoorClosed } from "lucide-react";
import { useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Checks } from "~/components/ui/checks";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Field, Input } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { policies, policyReads } from "~/data/policy";
import { reads } from "~/data/queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { GetSignInPolicyResponse, SignInPolicy } from "~/gen/corvo/cloud/v1/policy_pb";
import { changedPaths } from "~/lib/mask";
import { plural } from "~/lib/numbers";
import { policyEquivalents } from "~/lib/policy-equivalents";

/** How people sign in to the tenant, and what its keys must be. */
export function PolicyPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.TENANT_READ);
  const blocked = access.blocked(Permission.POLICY_UPDATE);
  const current = useQuery({ ...policyReads.policy(tenant), enabled: !unreadable });
  useCopyAs(policyEquivalents(tenant));
  return (
    <Page
      width="text"
      description="How people sign in to this tenant, what its API keys must be, and what its audit log keeps."
    >
      {unreadable ? (
        <EmptyState icon={<DoorClosed aria-hidden />} title="You can't view the sign-in policy">
          {unreadable}
        </EmptyState>
      ) : current.error && !current.data ? (
        <Problem error={current.error} onRetry={() => void current.refetch()} />
      ) : !current.data?.policy ? (
        <SkeletonRows rows={5} columns={2} label="Loading the sign-in policy" />
      ) : (
        <>
          <PolicyForm
            key={current.data.policy.etag}
            tenant={tenant}
            policy={current.data.policy}
            needs={current.data.requireSsoNeeds}
            blocked={blocked}
          />
          <BreakGlass tenant={tenant} current={current.data} blocked={blocked} />
          {access.blocked(Permission.KEY_READ) ? null : <KeysOutside tenant={tenant} />}
        </>
      )}
    </Page>
  );
}

const rules = {
  requireSso: {
    label: "Require single sign-on",
    description:
      "Sign-in links, invitations and personal keys of people who don't come that way stop working here.",
  },
  requireSecondFactor: {
    label: "Require a second factor",
    description: "For people who sign in by email. Your identity provider asks everybody else.",
  },
  keyNetworksRequired: {
    label: "New API keys must name their networks",
    description: "Existing keys stay as they are.",
  },
  forbidPersonalKeysForJobs: {
    label: "No personal keys for jobs",
    description: "Personal keys do nothing at the tenant URL.",
  },
  auditPayloadReads: {
    label: "Log who reads payloads",
    description: "The audit log says which person read what jobs and schedules carry.",
  },
} as const;
type Rule = keyof typeof rules;

const spans = {
  sessionIdleSeconds: {
    label: "End sessions not used for",
    unit: 3600n,
    word: "hours",
    name: "session_idle_seconds",
    hint: "Leave empty for no limit.",
  },
  sessionLifeSeconds: {
    label: "End sessions after",
    unit: 3600n,
    word: "hours",
    name: "session_life_seconds",
    hint: "Leave empty for no limit.",
  },
  keyLifeMaxSeconds: {
    label: "New API keys expire within",
    unit: 86_400n,
    word: "days",
    name: "key_life_max_seconds",
    hint: "Leave empty for no limit.",
  },
  auditRetentionSeconds: {
    label: "Keep audit log entries for",
    unit: 86_400n,
    word: "days",
    name: "audit_retention_seconds",
    hint: "Empty: 400 days. Older entries are deleted for good.",
  },
} as const;
type Span = keyof typeof spans;
const spanNames = Object.keys(spans) as Span[];

interface FormProps {
  tenant: string;
  policy: SignInPolicy;
  needs: string[];
  blocked: string | undefined;
}

function PolicyForm({ tenant, policy, needs, blocked }: FormProps) {
  const [on, setOn] = useState<Rule[]>((Object.keys(rules) as Rule[]).filter((rule) => policy[rule]));
  const [texts, setTexts] = useState<Record<Span, string>>({
    sessionIdleSeconds: written(policy, "sessionIdleSeconds"),
    sessionLifeSeconds: written(policy, "sessionLifeSeconds"),
    keyLifeMaxSeconds: written(policy, "keyLifeMaxSeconds"),
    auditRetentionSeconds: written(policy, "auditRetentionSeconds"),
  });
  const wrong = spanNames.filter((span) => !/^\d{0,5}$/.test(texts[span].trim()));
  const save = useChange(
    tenant,
    () => {
      const next = Object.fromEntries([
        ...(Object.keys(rules) as Rule[]).map((rule) => [rule, on.includes(rule)]),
        ...spanNames.map((span) => [span, read(span, texts[span], policy)]),
      ]) as Record<Rule, boolean> & Record<Span, bigint>;
      const updateMask = { paths: changedPaths(next, policy) };
      return policies.updateSignInPolicy({ tenant, policy: next, updateMask, etag: policy.etag });
    },
    { quiet: true, done: () => "Saved the sign-in policy" },
  );
  const errors = fieldErrors(save.error);
  const changed =
    (Object.keys(rules) as Rule[]).some((rule) => on.includes(rule) !== policy[rule]) ||
    spanNames.some((span) => texts[span].trim() !== written(policy, span));
  const stop =
    blocked ?? (wrong.length > 0 ? "Enter whole numbers." : changed ? undefined : "Nothing has changed.");
  return (
    <Card
      title="Policy"
      description="Changes hold from the next request on, for everybody."
      action={
        <Button
          variant="primary"
          busy={save.isPending}
          blockedBecause={stop}
          onClick={() => save.mutate(undefined)}
        >
          Save policy
        </Button>
      }
    >
      <div className="flex flex-col gap-5">
        {otherError(save.error) ? <Banner tone="danger" title={otherError(save.error)} /> : null}
        <Checks
          whole
          label="Rules"
          error={errors["policy.require_sso"]}
          options={(Object.keys(rules) as Rule[]).map((rule) => ({ value: rule, ...rules[rule] }))}
          value={on}
          onChange={setOn}
        />
        {needs.length > 0 && !policy.requireSso ? (
          <Banner tone="info" title="Before you can require single sign-on">
            <ul className="list-disc pl-5">
              {needs.map((need) => (
                <li key={need} className="first-letter:uppercase">
                  {need.replace(/: corvo [\w -]+$/, "")}
                </li>
              ))}
            </ul>
            <Link
              to="/$tenant/settings/sso"
              params={{ tenant }}
              className="font-medium text-accent-text underline-offset-2 hover:underline"
            >
              Single sign-on
            </Link>
          </Banner>
        ) : null}
        <div className="grid gap-4 sm:grid-cols-2">
          {spanNames.map((span) => (
            <Field
              key={span}
              label={spans[span].label}
              note={spans[span].word}
              hint={spans[span].hint}
              error={wrong.includes(span) ? "Enter a whole number." : errors[`policy.${spans[span].name}`]}
            >
              <Input
                inputMode="numeric"
                value={texts[span]}
                onChange={(text) => setTexts((all) => ({ ...all, [span]: text }))}
              />
            </Field>
          ))}
        </div>
      </div>
    </Card>
  );
}

/** A span in its unit; one that was set in another one is rounded up to it. */
function written(policy: SignInPolicy, span: Span): string {
  const { unit } = spans[span];
  return policy[span] === 0n ? "" : String((policy[span] + unit - 1n) / unit);
}

/** What was not touched stays as exact as it was. */
function read(span: Span, text: string, policy: SignInPolicy): bigint {
  if (text.trim() === written(policy, span)) return policy[span];
  return BigInt(text.trim() || "0") * spans[span].unit;
}

interface BreakGlassProps {
  tenant: string;
  current: GetSignInPolicyResponse;
  blocked: string | undefined;
}

function BreakGlass({ tenant, current, blocked }: BreakGlassProps) {
  const make = useChange(tenant, () => policies.createBreakGlassCodes({ tenant }), { quiet: true });
  const left = current.breakGlassCodesLeft;
  return (
    <Card
      title="Break-glass codes"
      description="When your identity provider is down, an owner who signed in by email enters with one for an hour. Every owner gets an email."
      action={
        <Button busy={make.isPending} blockedBecause={blocked} onClick={() => make.mutate(undefined)}>
          {left > 0 ? "Replace codes" : "Create codes"}
        </Button>
      }
      footer={left > 0 ? `${plural(left, "code")} left` : "No codes"}
    >
      {make.data || make.error ? (
        <div className="flex flex-col gap-3">
          {otherError(make.error) ? <Banner tone="danger" title={otherError(make.error)} /> : null}
          {make.data ? (
            <>
              <p className="text-13 text-ink-2">
                Print these codes and keep them where owners find them. They aren't shown again, and older
                ones no longer work.
              </p>
              <CodeBlock code={make.data.codes.join("\n")} label="Break-glass codes" />
            </>
          ) : null}
        </div>
      ) : null}
    </Card>
  );
}

function KeysOutside({ tenant }: { tenant: string }) {
  const keys = useQuery(policyReads.keys(tenant));
  const namespaces = useQuery(reads.namespaces(tenant));
  const namespace = namespaces.data?.[0]?.name;
  if (!keys.data?.total) return null;
  return (
    <Card
      title="Keys outside the policy"
      description={`${plural(keys.data.total, "key")} made before the policy. They work until you change or revoke them.`}
      action={
        namespace ? (
          <Link to="/$tenant/$namespace/keys" params={{ tenant, namespace }} className={buttonClass()}>
            API keys
          </Link>
        ) : null
      }
    >
      <ul className="flex flex-col gap-3 text-13">
        {keys.data.keys.slice(0, 100).map((key) => (
          <li key={key.keyId} className="min-w-0 wrap-anywhere">
            <span className="font-medium">{key.name}</span>{" "}
            <span className="text-ink-3">owned by {key.owner}</span>
            <ul className="text-12 text-ink-2">
              {key.problems.map((problem) => (
                // Which field is said by the sentence already.
                <li key={problem} className="first-letter:uppercase">
                  {problem.replace(/^\w+: /, "")}
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </Card>
  );
}
