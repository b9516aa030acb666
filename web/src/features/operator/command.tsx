import { CodeBlock } from "~/components/ui/code";

/** The command on the control plane's host that does what a dialog does. */
export function Command({ code }: { code: string }) {
  return <CodeBlock title="The same on the host" label="Command" language="shell" code={code} wrap />;
}

/** Why an operator can only look; undefined: they may change things. */
export const viewing = (role: string) =>
  role === "admin" ? undefined : "You are an operator with the role viewer. Changes need the role admin.";
