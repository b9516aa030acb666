// The browser's dialogs for passkeys. What they take and give is JSON as the server
// writes and reads it.

/** Makes a passkey; rejects if the person closes the dialog. */
export async function createPasskey(optionsJson: string): Promise<string> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(optionsJson));
  return json(await navigator.credentials.create({ publicKey }));
}

/** Shows a passkey; rejects if the person closes the dialog. */
export async function showPasskey(optionsJson: string): Promise<string> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(optionsJson));
  return json(await navigator.credentials.get({ publicKey }));
}

function json(credential: Credential | null): string {
  if (!(credential instanceof PublicKeyCredential))
    throw new Error("The browser gave no passkey. Try again.");
  return JSON.stringify(credential.toJSON());
}

/** Whether a dialog ended without an answer, which says nothing about the passkey. */
export function dismissed(error: unknown): boolean {
  return error instanceof DOMException && (error.name === "NotAllowedError" || error.name === "AbortError");
}

/** Whether this browser knows passkeys. */
export const hasPasskeys =
  typeof PublicKeyCredential !== "undefined" && "parseCreationOptionsFromJSON" in PublicKeyCredential;
