// Processes of the journeys: started on free loopback ports, ended with the test.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";

/** Proc is a process that runs in the background until end(). */
export class Proc {
  private output = "";
  private readonly gone: Promise<void>;
  private exited = false;

  constructor(
    readonly name: string,
    private readonly child: ChildProcess,
  ) {
    child.stdout?.on("data", (text) => this.note(text));
    child.stderr?.on("data", (text) => this.note(text));
    this.gone = new Promise((resolve) => {
      child.once("error", (err) => this.note(`${err}\n`));
      child.once("close", () => {
        this.exited = true;
        resolve();
      });
    });
  }

  static start(name: string, command: string, args: string[], options: { env?: NodeJS.ProcessEnv; cwd?: string } = {}): Proc {
    return new Proc(name, spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] }));
  }

  /** waitFor polls until ok gives something, the process ends, or time is up. */
  async waitFor<T>(what: string, ok: () => Promise<T | undefined>, seconds = 60): Promise<T> {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      const found = await ok().catch(() => undefined);
      if (found !== undefined) return found;
      if (this.exited) throw new Error(`${this.name} ended before ${what}:\n${this.tail()}`);
      if (Date.now() > deadline) throw new Error(`${this.name}: no ${what} within ${seconds} s:\n${this.tail()}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (!this.exited) this.child.kill(signal);
    const late = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    await this.gone;
    clearTimeout(late);
  }

  /** tail is the end of the process's output. */
  tail(): string {
    return this.output.slice(-4000);
  }

  /** said is the process's output so far. */
  said(): string {
    return this.output;
  }

  private note(text: unknown): void {
    this.output += String(text);
  }
}

/** freePort is a loopback port that nobody listens on right now. */
export async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port"))));
    });
  });
}

/** eventually polls until check does not throw, and gives what it returns. */
export async function eventually<T>(what: string, check: () => Promise<T>, seconds = 20): Promise<T> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    try {
      return await check();
    } catch (err) {
      if (Date.now() > deadline) throw new Error(`${what}: ${err instanceof Error ? err.message : err}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
