// Namespaces, queues and keys as code, with the real Terraform; the console shows them.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { binary, type Service } from "../rig/service.ts";
import { expect, Tenant, test } from "./fixtures.ts";

const config = `
terraform {
  required_providers {
    corvo = { source = "corvo-cloud/corvo" }
  }
}

resource "corvo_namespace" "orders" {
  name = "orders"
}

resource "corvo_queue" "mail" {
  namespace       = corvo_namespace.orders.id
  name            = "mail"
  max_concurrency = 20
}

ephemeral "corvo_api_key_secret" "worker" {
  kind = "dp"
}

resource "corvo_api_key" "worker" {
  name              = "orders-worker"
  kind              = "dp"
  namespaces        = [corvo_namespace.orders.id]
  roles             = ["producer", "worker"]
  secret_wo         = ephemeral.corvo_api_key_secret.worker.key
  secret_wo_version = 1
}
`;

/** A folder with a configuration, and Terraform with our provider as it was just built. */
class Workspace {
  readonly dir = mkdtempSync(join(tmpdir(), "corvo-terraform-"));

  constructor(private readonly service: Service) {
    writeFileSync(join(this.dir, "main.tf"), config);
    writeFileSync(
      join(this.dir, "terraformrc"),
      `provider_installation {\n  dev_overrides {\n    "corvo-cloud/corvo" = "${dirname(binary("terraform-provider-corvo"))}"\n  }\n  direct {}\n}\n`,
    );
  }

  run(...args: string[]): { status: number | null; output: string } {
    const done = spawnSync("terraform", args, {
      cwd: this.dir,
      encoding: "utf8",
      env: {
        ...process.env,
        TF_CLI_CONFIG_FILE: join(this.dir, "terraformrc"),
        CHECKPOINT_DISABLE: "1",
        CORVO_ENDPOINT: this.service.url,
        CORVO_TOKEN: this.service.variable("CORVO_TOKEN"),
      },
    });
    return { status: done.status, output: done.stdout + done.stderr };
  }

  ok(...args: string[]): string {
    const { status, output } = this.run(...args);
    expect(status, output).toBe(0);
    return output;
  }

  end(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

test("apply, an empty plan, drift, and a destroy that leaves nothing", async ({ owner: page, service }) => {
  test.setTimeout(120_000);
  const work = new Workspace(service);
  work.ok("apply", "-auto-approve", "-no-color");
  // 0 says that there is nothing to do; 2 would say that there is.
  expect(work.run("plan", "-detailed-exitcode", "-no-color").status).toBe(0);
  const state = readFileSync(join(work.dir, "terraform.tfstate"), "utf8");
  expect(state).toContain("orders-worker");
  expect(state).not.toMatch(/corvo_(dp|mg)_[0-9A-Za-z]{61}/);

  await page.goto(`${service.url}/demo/orders/queues`);
  await expect(page.getByRole("row").filter({ hasText: "mail" })).toBeVisible();
  await page.goto(`${service.url}/demo/orders/keys`);
  await expect(page.getByRole("row").filter({ hasText: "orders-worker" })).toContainText("orders");

  // Somebody changes the queue by hand: the plan finds it, apply puts it back.
  const admin = new Tenant(service.variable("CORVO_URL"), service.variable("CORVO_TOKEN"));
  const changed = await fetch(`${admin.url}/api/v1/queues/mail`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${admin.key}`, "X-Corvo-Namespace": "orders", "Content-Type": "application/json" },
    body: JSON.stringify({ max_concurrency: 1 }),
  });
  expect(changed.status).toBe(200);
  expect(work.run("plan", "-detailed-exitcode", "-no-color").status).toBe(2);
  work.ok("apply", "-auto-approve", "-no-color");
  expect(work.run("plan", "-detailed-exitcode", "-no-color").status).toBe(0);

  work.ok("destroy", "-auto-approve", "-no-color");
  await page.goto(`${service.url}/demo/settings/namespaces`);
  await expect(page.getByRole("link", { name: "default" })).toBeVisible();
  await expect(page.getByRole("link", { name: "orders" })).toHaveCount(0);
  work.end();
});
