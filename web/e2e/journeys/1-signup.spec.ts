// A new user opens the hosted page and has run a first job a minute later.
import { execFileSync } from "node:child_process";
import { demoOwner, expect, MailServer, refusals, signIn, test } from "./fixtures.ts";

test("sign-up: mail, key once, the snippet as printed, the first job live", async ({ page, service, mail }) => {
  await page.goto(`${service.url}/signup`);
  await page.getByLabel("Work email").fill("grace@initech.example");
  await expect(page.getByLabel("Tenant name")).toHaveValue("initech");
  await expect(page.getByText(`${service.url}/t/initech`)).toBeVisible();
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();

  const link = MailServer.link(await mail.next("grace@initech.example", /confirm/i));
  const refused = refusals(page);
  await page.goto(link);
  // Opening the link creates nothing: it says whose tenant it will be, and asks.
  await expect(page.getByText("grace@initech.example").first()).toBeVisible();
  await expect(page.getByText("wasn't started in this browser")).toHaveCount(0);
  await page.getByRole("button", { name: "Create initech" }).click();
  await expect(page.getByRole("heading", { name: "Welcome, initech" })).toBeVisible();
  // The link is used up: nothing asks about it again.
  expect(refused).toEqual([]);
  await page.getByRole("button", { name: "Show the API key" }).click();
  const key = await page.locator("[data-secret]").first().innerText();
  expect(key).toMatch(/^corvo_dp_[0-9A-Za-z]{61}$/);
  // The token of the link is gone from the address, and so from the history.
  expect(page.url()).not.toContain("token");
  await page.getByRole("link", { name: /continue|first job/i }).click();

  await expect(page.getByRole("heading", { name: "Run your first job", level: 1 })).toBeVisible();
  await expect(page.locator("figure pre").nth(1)).toBeVisible();
  const shell = (await page.locator("figure pre").allInnerTexts()).join("\n");
  expect(shell).toContain(`${service.url}/t/initech`);
  // Everything on the page, pasted into a shell unchanged.
  execFileSync("bash", ["-euo", "pipefail", "-c", shell.includes(key) ? shell : `export CORVO_API_KEY=${key}\n${shell.replace(/export CORVO_API_KEY=.*/, "")}`], { stdio: "pipe" });
  await expect(page.getByText("5 of 5")).toBeVisible();

  await page.getByRole("link", { name: "Jobs" }).first().click();
  await expect(page.getByRole("row").filter({ hasText: "hello" }).getByText("Completed")).toBeVisible();
});

test("sign-up: a used link, a broken one and a taken name tell the way out", async ({ page, service, mail }) => {
  await page.goto(`${service.url}/signup`);
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByText("Enter your email address.")).toBeVisible();
  await expect(page.getByText("Enter a name for your team or company.")).toBeVisible();
  await page.getByLabel("Work email").fill("hal@example.com");
  await page.getByLabel("Tenant name").fill("hal-corp");
  await page.getByRole("button", { name: "Continue" }).click();
  await mail.next("hal@example.com", /confirm/i);
  // The first link stops working when there is a second.
  const before = await mail.count();
  await page.getByRole("button", { name: "Send again" }).click();
  await expect(page.getByRole("button", { name: "Sent again" })).toBeDisabled();
  const link = MailServer.link(await mail.next("hal@example.com", /confirm/i, before));
  await page.goto(link);
  await page.getByRole("button", { name: "Create hal-corp" }).click();
  await expect(page.getByRole("heading", { name: "Welcome, hal-corp" })).toBeVisible();

  await page.goto("about:blank");
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "This link isn't valid" })).toBeVisible();
  await expect(page.getByText(/sign in/i).first()).toBeVisible();

  await page.goto("about:blank");
  await page.goto(`${service.url}/signup/confirm#token=nonsense`);
  await expect(page.getByRole("heading", { name: "This link isn't valid" })).toBeVisible();

  await page.goto(`${service.url}/signup`);
  await page.getByLabel("Work email").fill("eve@example.com");
  await page.getByLabel("Tenant name").fill("hal-corp");
  await expect(page.getByText(/taken/i).first()).toBeVisible();
});

test("sign-up: somebody else's link signs nobody in without a click, and says whose it is", async ({ page, service, mail }) => {
  // Asked for elsewhere: as by somebody who sends the link on.
  await page.request.post(`${service.url}/corvo.cloud.v1.SignupService/Start`, { data: { email: "mallory@evil.example", tenant: "bait" } });
  await page.context().clearCookies();
  await page.goto(MailServer.link(await mail.next("mallory@evil.example", /confirm/i)));
  await expect(page.getByText("This sign-up wasn't started in this browser")).toBeVisible();
  await expect(page.getByText("mallory@evil.example").first()).toBeVisible();
  expect(await page.context().cookies()).toHaveLength(0);
});

test("a sign-in link is not asked about once it is used", async ({ page, service, mail }) => {
  const refused = refusals(page);
  await signIn(page, service, mail, demoOwner);
  expect(refused).toEqual([]);
});
