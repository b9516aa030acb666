import { useState } from "react";
import { CodeBlock } from "~/components/ui/code";
import { Dialog } from "~/components/ui/dialog";
import { Tabs } from "~/components/ui/tabs";
import { type Equivalents, useEquivalents } from "./copy-as";

type Form = keyof Equivalents;

const forms: readonly { value: Form; label: string; language: "shell" | "hcl" }[] = [
  { value: "curl", label: "curl", language: "shell" },
  { value: "cli", label: "corvo CLI", language: "shell" },
  { value: "terraform", label: "Terraform", language: "hcl" },
];

export default function CopyAsDialog({
  open,
  onOpenChange,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  const current = useEquivalents();
  const [chosen, setChosen] = useState<Form>("curl");
  const offered = forms.filter((form) => current?.[form.value]);
  const value = offered.some((form) => form.value === chosen) ? chosen : (offered[0]?.value ?? "curl");
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Copy as"
      description="Run what this page shows from your terminal or code."
      size="md"
    >
      {offered.length === 0 ? (
        <p className="pb-4 text-13 text-ink-2">This page has no equivalent yet.</p>
      ) : (
        <div className="pb-3">
          <Tabs
            label="Format"
            value={value}
            onChange={setChosen}
            tabs={offered.map((form) => ({
              value: form.value,
              label: form.label,
              content: (
                <CodeBlock code={current?.[form.value] ?? ""} language={form.language} label={form.label} />
              ),
            }))}
          />
        </div>
      )}
    </Dialog>
  );
}
