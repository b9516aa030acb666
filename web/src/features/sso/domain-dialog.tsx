import { useState } from "react";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { domains } from "~/data/domains";

interface DomainDialogProps {
  tenant: string;
  onClose: () => void;
}

/** Claims a domain. */
export default function DomainDialog({ tenant, onClose }: DomainDialogProps) {
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const create = useChange(tenant, () => domains.createDomain({ tenant, requestId, name: name.trim() }), {
    quiet: true,
    done: ({ domain }) => `Added ${domain?.name ?? name}. Add its TXT record next`,
  });
  return (
    <FormDialog
      onClose={onClose}
      title="Add domain"
      description="You'll get a TXT record that proves the domain is yours."
      submit="Add domain"
      onSubmit={() => create.mutate(undefined, { onSuccess: onClose })}
      busy={create.isPending}
      blockedBecause={name.trim() ? undefined : "Enter a domain."}
      failure={otherError(create.error)}
    >
      <Field
        label="Domain"
        hint="What follows the @ in your people's email addresses. Subdomains are separate domains."
        error={fieldErrors(create.error).name}
      >
        <Input autoFocus autoCapitalize="none" placeholder="company.com" value={name} onChange={setName} />
      </Field>
    </FormDialog>
  );
}
