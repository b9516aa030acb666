// The service under test: corvo-cloud up, as anybody starts it.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort, Proc } from "./process.ts";

export interface ServiceOptions {
  /** Empty: SQLite in the data folder. */
  database?: string;
  /** Empty: the service's own mailbox. */
  smtpPort?: number;
  /** HOST:PORT of a name server. Empty: the machine's. */
  dns?: string;
  /** A name of this machine in the public URL: passkeys belong to names. Empty: its address. */
  host?: string;
  /** Plans are paid for on pages of its own, with no money. */
  testPayments?: boolean;
}

export class Service {
  private constructor(
    private readonly proc: Proc,
    private readonly dir: string,
    /** Its control plane's database, for commands. */
    readonly database: string,
    /** What a shell would have read from the file: CORVO_URL and so on. */
    readonly env: Record<string, string>,
  ) {}

  static async start(options: ServiceOptions = {}): Promise<Service> {
    const dir = mkdtempSync(join(tmpdir(), "corvo-up-"));
    const file = join(dir, "env");
    // The nodes share a process with each other and two cores with the browser: a pause of
    // half a second is no leader's end here, and journeys are not about elections.
    const args = ["up", "--heartbeat", "2s", "--listen", "127.0.0.1:0", "--data", join(dir, "data"), "--env-file", file];
    if (options.dns) args.push("--dns", options.dns);
    if (options.database) args.push("--database", options.database);
    if (options.host) {
      const port = await freePort();
      args.splice(args.indexOf("127.0.0.1:0"), 1, `127.0.0.1:${port}`);
      args.push("--public-url", `http://${options.host}:${port}`);
    }
    if (options.smtpPort) args.push("--smtp", `127.0.0.1:${options.smtpPort}`);
    if (options.testPayments) args.push("--test-payments");
    const proc = Proc.start("corvo-cloud up", binary("corvo-cloud"), args);
    const text = await proc.waitFor("being ready", async () => readFileSync(file, "utf8"));
    return new Service(proc, dir, options.database ?? `sqlite:${join(dir, "data", "control.db")}`, parse(text));
  }

  /** url is the public URL: console and control API. */
  get url(): string {
    return this.variable("CORVO_ENDPOINT");
  }

  variable(name: string): string {
    const value = this.env[name];
    if (!value) throw new Error(`the service told no ${name}: ${Object.keys(this.env)}`);
    return value;
  }

  /** operate runs a command of the service's operator, such as override set. */
  operate(...args: string[]): void {
    execFileSync(binary("corvo-cloud"), ["control", ...args, "--database", this.database], { stdio: "pipe" });
  }

  /** Names an operator, as somebody on the host does. */
  nameOperator(email: string, role: "viewer" | "admin"): void {
    this.operate("operators", "add", email, "--role", role);
  }

  said(): string {
    return this.proc.said();
  }

  async end(): Promise<void> {
    await this.proc.end("SIGINT");
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** binary is the path of a program: of make build, or in the folder that CORVO_BIN names. */
export function binary(name: string): string {
  if (process.env.CORVO_BIN) return join(process.env.CORVO_BIN, name);
  return fileURLToPath(new URL(`../../../.bin/${name}`, import.meta.url));
}

function parse(text: string): Record<string, string> {
  return Object.fromEntries(text.split("\n").flatMap((line) => (line.includes("=") ? [[line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]] : [])));
}
