// A company's directory: it calls the SCIM endpoint as Okta and Entra do.
import { Control } from "./seed.ts";

const core = "urn:ietf:params:scim:schemas:core:2.0";

export class Directory {
  constructor(
    private readonly endpoint: string,
    private readonly token: string,
  ) {}

  /** A directory of a connection, with a token of its own. */
  static async of(control: Control, tenant: string, connectionId: string): Promise<Directory> {
    const { sync } = await control.call<{ sync: { endpointUrl: string } }>("DirectoryService/GetDirectorySync", { tenant, connectionId });
    const { secret } = await control.call<{ secret: string }>("DirectoryService/CreateScimToken", { tenant, connectionId });
    return new Directory(sync.endpointUrl, secret);
  }

  async call<T = { id: string }>(method: string, path: string, body?: object): Promise<{ status: number; body: T }> {
    const res = await fetch(this.endpoint + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/scim+json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await res.text();
    return { status: res.status, body: (text ? JSON.parse(text) : {}) as T };
  }

  async user(userName: string, more: object = {}): Promise<string> {
    return this.made("/Users", { schemas: [`${core}:User`], userName, externalId: userName, active: true, emails: [{ value: userName, primary: true }], ...more });
  }

  async group(displayName: string, members: string[]): Promise<string> {
    return this.made("/Groups", { schemas: [`${core}:Group`], displayName, members: members.map((value) => ({ value })) });
  }

  async setActive(id: string, active: boolean): Promise<void> {
    const operations = { schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], Operations: [{ op: "replace", value: { active } }] };
    const { status, body } = await this.call("PATCH", `/Users/${id}`, operations);
    if (status >= 300) throw new Error(`PATCH user: ${status} ${JSON.stringify(body)}`);
  }

  private async made(path: string, body: object): Promise<string> {
    const answer = await this.call("POST", path, body);
    if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.id;
  }
}
