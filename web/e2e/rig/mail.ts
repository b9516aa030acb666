// A mail server that is not ours: maildev.
import { fileURLToPath } from "node:url";
import { eventually, freePort, Proc } from "./process.ts";

export interface Mail {
  id: string;
  subject: string;
  text: string;
  html: string;
  to: { address: string }[];
  headers: Record<string, string>;
}

export class MailServer {
  private constructor(
    private readonly proc: Proc,
    readonly smtpPort: number,
    private readonly api: string,
  ) {}

  static async start(): Promise<MailServer> {
    const [smtp, web] = [await freePort(), await freePort()];
    const program = fileURLToPath(new URL("../node_modules/maildev/bin/maildev", import.meta.url));
    const proc = Proc.start("maildev", process.execPath, [program, "--smtp", String(smtp), "--web", String(web), "--ip", "127.0.0.1"]);
    const api = `http://127.0.0.1:${web}`;
    await proc.waitFor("its API", async () => ((await fetch(`${api}/email`)).ok ? true : undefined));
    return new MailServer(proc, smtp, api);
  }

  private async all(): Promise<Mail[]> {
    return (await (await fetch(`${this.api}/email`)).json()) as Mail[];
  }

  /** count is how many mails have come so far; for next, to wait for a newer one. */
  async count(): Promise<number> {
    return (await this.all()).length;
  }

  /** next waits for a mail to an address whose subject matches, newer than the first ones. */
  async next(address: string, subject: RegExp, after = 0): Promise<Mail> {
    return await eventually(`a mail to ${address} about ${subject}`, async () => {
      const mails = (await this.all()).slice(after);
      const found = mails.filter((mail) => mail.to.some((to) => to.address === address) && subject.test(mail.subject)).at(-1);
      if (!found) throw new Error(`there are ${mails.length} mails, none of them that one`);
      return found;
    });
  }

  /** link is the one-time link in a mail. */
  static link(mail: Mail): string {
    const found = /https?:\/\/\S+#token=[^\s"<>)]+/.exec(mail.text);
    if (!found) throw new Error(`no link in: ${mail.text}`);
    return found[0];
  }

  async end(): Promise<void> {
    await this.proc.end();
  }
}
