// PostgreSQL from the system's packages, with a fresh cluster of databases.
import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./process.ts";

export class Postgres {
  private constructor(
    private readonly dir: string,
    private readonly port: number,
  ) {}

  static async start(): Promise<Postgres> {
    const dir = mkdtempSync(join(tmpdir(), "corvo-postgres-"));
    if (process.getuid?.() === 0) {
      const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
      chownSync(dir, id("-u"), id("-g"));
    }
    const port = await freePort();
    const started = new Postgres(dir, port);
    run("initdb", ["-A", "trust", "-U", "postgres", "-D", join(dir, "data")]);
    const options = `-p ${port} -k ${dir} -c listen_addresses=127.0.0.1 -c fsync=off`;
    run("pg_ctl", ["-D", join(dir, "data"), "-o", options, "-l", join(dir, "log"), "-w", "start"]);
    // The service's role is a plain one: row-level security binds it.
    started.sql("CREATE ROLE corvo LOGIN; CREATE DATABASE corvo OWNER corvo");
    return started;
  }

  get url(): string {
    return `postgres://corvo@127.0.0.1:${this.port}/corvo?sslmode=disable`;
  }

  private sql(text: string): void {
    for (const statement of text.split(";")) {
      run("psql", ["-h", "127.0.0.1", "-p", String(this.port), "-U", "postgres", "-q", "-c", statement.trim()]);
    }
  }

  async end(): Promise<void> {
    run("pg_ctl", ["-D", join(this.dir, "data"), "-m", "immediate", "-w", "stop"]);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** run starts a program of PostgreSQL, never as root. */
function run(program: string, args: string[]): void {
  const path = find(program);
  if (process.getuid?.() === 0) execFileSync("runuser", ["-u", "postgres", "--", path, ...args], { stdio: "pipe", cwd: "/" });
  else execFileSync(path, args, { stdio: "pipe" });
}

function find(program: string): string {
  const root = "/usr/lib/postgresql";
  const newest = readdirSync(root).sort((a, b) => Number(b) - Number(a))[0];
  if (!newest) throw new Error(`there is no PostgreSQL under ${root}: install Debian's package postgresql`);
  return join(root, newest, "bin", program);
}
