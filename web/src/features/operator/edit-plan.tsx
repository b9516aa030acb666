import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import { operators, useOperatorChange } from "~/data/operator";
import type { ApplyPlanResponse, EntitlementKind, PlanVersion } from "~/gen/corvo/cloud/v1/operator_pb";
import { meterOf } from "~/lib/billing";
import { parseWhole } from "~/lib/numbers";
import { applyPlanCommand } from "~/lib/operator-equivalents";
import { Command } from "./command";
import { overLimits } from "./plan-fields";

interface PlanDialogProps {
  /** The version that a new one begins as; none for a new plan. */
  base?: PlanVersion;
  kinds: readonly EntitlementKind[];
  meters: readonly string[];
  onClose: () => void;
}

const priceParts = ["included", "per", "amount"] as const;
const partTitles = { included: "Included", per: "Then every", amount: "Costs" };

/** What is typed, by field; empty is no limit, or no price. */
type Typed = Record<string, string>;

function typedOf(base: PlanVersion | undefined): Typed {
  const spec = base?.spec;
  return {
    name: spec?.name ?? "",
    title: spec?.title ?? "",
    rank: String(spec?.rank ?? ""),
    currency: spec?.currency ?? "usd",
    base_amount: String(spec?.baseAmount ?? "0"),
    over_limit: spec?.overLimit ?? "hold_dispatch",
    self_serve: spec?.selfServe ? "yes" : "",
    listed: spec?.listed ? "yes" : "",
    ...Object.fromEntries(
      Object.entries(spec?.entitlements ?? {}).map(([name, value]) => [
        `entitlements.${name}`,
        String(value),
      ]),
    ),
    ...Object.fromEntries(
      (spec?.prices ?? []).flatMap((price) =>
        priceParts.map((part) => [`prices.${price.meter}.${part}`, String(price[part])]),
      ),
    ),
  };
}

const number = (text: string | undefined) => parseWhole(text ?? "") ?? 0n;

function specOf(typed: Typed, kinds: readonly EntitlementKind[], meters: readonly string[]) {
  const text = (name: string) => typed[name] ?? "";
  return {
    name: text("name"),
    title: text("title"),
    rank: number(typed.rank),
    currency: text("currency"),
    baseAmount: number(typed.base_amount),
    overLimit: text("over_limit"),
    selfServe: text("self_serve") !== "",
    listed: text("listed") !== "",
    entitlements: Object.fromEntries(
      kinds
        .filter(({ name }) => text(`entitlements.${name}`) !== "")
        .map(({ name }) => [name, number(typed[`entitlements.${name}`])]),
    ),
    prices: meters
      .filter((meter) => text(`prices.${meter}.per`) !== "")
      .map((meter) => ({
        meter,
        included: number(typed[`prices.${meter}.included`]),
        per: number(typed[`prices.${meter}.per`]),
        amount: number(typed[`prices.${meter}.amount`]),
      })),
  };
}

/** Fields whose text is no number. */
const notNumbers = (typed: Typed) =>
  Object.entries(typed)
    .filter(([name, text]) => /^(rank|base_amount|entitlements\.|prices\.)/.test(name) && text !== "")
    .filter(([, text]) => parseWhole(text) === undefined)
    .map(([name]) => name);

/** Edits a plan, shows what would be different, and applies it. */
export default function PlanDialog({ base, kinds, meters, onClose }: PlanDialogProps) {
  const [typed, setTyped] = useState<Typed>(() => typedOf(base));
  const [reason, setReason] = useState("");
  const baseVersion = base?.version ?? 0;
  const spec = specOf(typed, kinds, meters);
  const preview = useMutation({
    mutationFn: () => operators.applyPlan({ spec, baseVersion, validateOnly: true }),
  });
  const apply = useOperatorChange(
    () => operators.applyPlan({ spec, baseVersion, reason }),
    ({ version }) => `Plan ${spec.name} has version ${version}`,
  );
  const bad = notNumbers(typed);
  const shown = preview.data;
  const wrong = wrongAbout(shown ? apply.error : preview.error);
  const set = (name: string) => (text: string) => setTyped((was) => ({ ...was, [name]: text }));
  const errorOf = (name: string) => (bad.includes(name) ? "Enter a whole number." : wrong(name));
  const changes = shown?.differences.length ?? 0;
  return (
    <FormDialog
      onClose={shown ? () => preview.reset() : onClose}
      title={base ? `New version of ${spec.name}` : "New plan"}
      description={
        shown
          ? "What is different to the newest version."
          : "Amounts are in the currency's smallest unit. What is left empty has no limit, and no price."
      }
      submit={shown ? `Apply version ${baseVersion + 1}` : "Preview changes"}
      size="lg"
      busy={preview.isPending || apply.isPending}
      blockedBecause={
        bad.length > 0
          ? "Some fields need a whole number."
          : shown && changes === 0
            ? "Nothing is different."
            : undefined
      }
      failure={otherError(shown ? apply.error : preview.error)}
      onSubmit={() => (shown ? apply.mutate(undefined, { onSuccess: onClose }) : preview.mutate())}
    >
      {shown ? (
        <Differences shown={shown} reason={reason} setReason={setReason} error={wrong("reason")} />
      ) : (
        <>
          <div className="grid gap-3 sm:grid-cols-3">
            {base ? null : (
              <Field label="Name" error={errorOf("name")}>
                <Input mono autoFocus value={typed.name ?? ""} onChange={set("name")} placeholder="startup" />
              </Field>
            )}
            <Field label="Title" error={errorOf("title")}>
              <Input value={typed.title ?? ""} onChange={set("title")} />
            </Field>
            <Field label="A month" error={errorOf("base_amount")}>
              <Input inputMode="numeric" value={typed.base_amount ?? ""} onChange={set("base_amount")} />
            </Field>
            <Field label="Currency" error={errorOf("currency")}>
              <Input mono value={typed.currency ?? ""} onChange={set("currency")} />
            </Field>
            <Field label="Rank" hint="Bigger plans have higher ones." error={errorOf("rank")}>
              <Input inputMode="numeric" value={typed.rank ?? ""} onChange={set("rank")} />
            </Field>
            <Field label="Beyond its jobs in a month" error={errorOf("over_limit")}>
              <Choice options={overLimits} value={typed.over_limit ?? ""} onChange={set("over_limit")} />
            </Field>
            <Field label="Tenants can choose it">
              <Switch
                checked={typed.self_serve !== ""}
                onChange={(on) => set("self_serve")(on ? "yes" : "")}
              />
            </Field>
            <Field label="Tenants see it">
              <Switch checked={typed.listed !== ""} onChange={(on) => set("listed")(on ? "yes" : "")} />
            </Field>
          </div>
          <h3 className="mt-2 text-13 font-semibold">Prices</h3>
          {meters.map((meter) => (
            <fieldset key={meter} className="grid gap-3 sm:grid-cols-3">
              <legend className="mb-1 text-12 text-ink-2">{meterOf(meter)?.title ?? meter}</legend>
              {priceParts.map((part) => (
                <Field
                  key={part}
                  label={partTitles[part]}
                  error={
                    bad.includes(`prices.${meter}.${part}`)
                      ? "Enter a whole number."
                      : part === "per"
                        ? wrong(`prices.${meter}`)
                        : undefined
                  }
                >
                  <Input
                    inputMode="numeric"
                    value={typed[`prices.${meter}.${part}`] ?? ""}
                    onChange={set(`prices.${meter}.${part}`)}
                  />
                </Field>
              ))}
            </fieldset>
          ))}
          <h3 className="mt-2 text-13 font-semibold">Entitlements</h3>
          <div className="grid gap-3 sm:grid-cols-2">
            {kinds.map(({ name, title, unit, max }) => (
              <Field
                key={name}
                label={title}
                note={max === 1n ? "0 or 1" : unit}
                error={errorOf(`entitlements.${name}`)}
              >
                <Input
                  inputMode="numeric"
                  placeholder="No limit"
                  value={typed[`entitlements.${name}`] ?? ""}
                  onChange={set(`entitlements.${name}`)}
                />
              </Field>
            ))}
          </div>
        </>
      )}
    </FormDialog>
  );
}

interface DifferencesProps {
  shown: ApplyPlanResponse;
  reason: string;
  setReason: (text: string) => void;
  error: string | undefined;
}

function Differences({ shown, reason, setReason, error }: DifferencesProps) {
  if (shown.differences.length === 0)
    return <Banner title="Nothing is different">Applying this would change nothing.</Banner>;
  return (
    <>
      <ul aria-label="Differences" className="flex flex-col divide-y divide-line text-13">
        {shown.differences.map(({ field, before, after }) => (
          <li key={field} className="grid gap-x-3 py-1.5 sm:grid-cols-[16rem_minmax(0,1fr)]">
            <code className="font-mono text-12 text-ink-2">{field}</code>
            <span className="nums wrap-anywhere">
              <del className="text-ink-3">{before || "nothing"}</del> <span aria-hidden>→</span>{" "}
              <ins className="font-medium no-underline">{after || "nothing"}</ins>
            </span>
          </li>
        ))}
      </ul>
      <Field label="Reason" hint="It is in the operators' log." error={error}>
        <Input autoFocus value={reason} onChange={setReason} placeholder="Prices of 2027" maxLength={500} />
      </Field>
      <Command code={applyPlanCommand(reason)} />
    </>
  );
}
