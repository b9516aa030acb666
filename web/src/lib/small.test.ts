import { describe, expect, it } from "vitest";
import { backoff } from "./backoff";
import { jobsEquivalents, queueTerraform, shellQuote } from "./equivalents";
import { highlight, type Language } from "./highlight";
import { newRequestId } from "./ids";
import { parseJobSearch, withinBound } from "./job-search";
import { nameProblem, queueNameProblem, suggestName } from "./names";
import { isOwnPath } from "./next";
import { deadEquivalents } from "./page-equivalents";
import { signinProblemText, signinSearch } from "./signin-search";
import { maskKey, snippets } from "./snippets";

describe("backoff", () => {
  it("grows, stays under its cap and never is zero", () => {
    for (let attempt = 1; attempt < 50; attempt++) {
      expect(backoff(attempt, 0)).toBeGreaterThanOrEqual(250);
      expect(backoff(attempt, 0.999)).toBeLessThanOrEqual(30_000);
    }
    expect(backoff(5, 0.999)).toBeGreaterThan(backoff(1, 0.999));
  });
});

describe("names", () => {
  it.each(["acme", "a1b", "a-b-c", "x".repeat(40)])("takes %s", (name) =>
    expect(nameProblem(name)).toBeNull(),
  );
  it.each(["Acme", "1ab", "-ab", "ab-", "ab", "a_b", "x".repeat(41)])("refuses %s with a reason", (name) =>
    expect(nameProblem(name)).toBeTruthy(),
  );
  it("suggests only names that are allowed", () => {
    for (const text of ["Acme Corp.", "Ünïted 7", "42 Steps", "a".repeat(60), "Zoë & Co"]) {
      const name = suggestName(text);
      if (name.length >= 3) expect(nameProblem(name)).toBeNull();
    }
    expect(suggestName("Acme Corp.")).toBe("acme-corp");
  });
  it("knows queue names", () => {
    expect(queueNameProblem("emails.send")).toBeNull();
    expect(queueNameProblem("a b")).toBeTruthy();
    expect(queueNameProblem(".a")).toBeTruthy();
  });
});

describe("jobs in the URL", () => {
  it.each([
    [{ state: "banana" }, /state can't be “banana”. Use scheduled, pending, .* or cancelled\./],
    [{ state: ["dead", "banana"] }, /state can't be “banana”/],
    [{ state: "{" }, /state can't be “{”/],
    [{ queue: { a: 1 } }, /queue can't be/],
    [{ tag: "nocolon" }, /tag can't be “nocolon”. Use key:value/],
    [{ within: "3y" }, /within can't be “3y”. Use 15m, 1h, 24h or 7d\./],
    [{ after: "yesterday" }, /after can't be “yesterday”. Use a time/],
  ])("refuses %j with what would do", (search, problem) =>
    expect(() => parseJobSearch(search)).toThrow(problem),
  );
  it("keeps each state once and leaves out what it does not know", () => {
    expect(parseJobSearch({ queue: " emails ", state: "dead,held,dead", colour: "red" })).toEqual({
      queue: "emails",
      state: ["dead", "held"],
      colour: undefined,
    });
  });
  it("takes states as list and as text, and a queue that looks like a number", () => {
    expect(parseJobSearch({ state: ["dead", "held"], queue: 42 })).toEqual({
      state: ["dead", "held"],
      queue: "42",
    });
  });
  it("gives equal bounds within a minute", () => {
    expect(withinBound("1h", 1_000_000_000_000)).toBe(withinBound("1h", 1_000_000_000_000 + 900));
  });
});

describe("where to go after a sign-in", () => {
  it.each(["/acme", "/acme/default/jobs?state=dead"])("goes to %s", (path) =>
    expect(isOwnPath(path)).toBe(true),
  );
  it.each([
    "//evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "/\n\\evil.example",
    "https://evil.example",
    "javascript:alert(1)",
    "",
  ])("refuses %s", (path) => expect(isOwnPath(path)).toBe(false));
});

describe("the sign-in page", () => {
  const said = (problem: unknown) => signinProblemText(signinSearch({ problem }).problem);
  it("says what a known problem is", () => expect(said("session_ended")).toMatch(/session has ended/));
  it.each(["Call 555-0100 to unlock your account", "toString", "__proto__", "", 7, ["session_ended"]])(
    "says nothing of %j from the address",
    (problem) => expect(said(problem)).toBeUndefined(),
  );
});

describe("highlight", () => {
  it("never loses a character of a snippet", () => {
    for (const list of Object.values(snippets)) {
      for (const snippet of list) {
        expect(
          highlight(snippet.code, snippet.language)
            .map((token) => token.text)
            .join(""),
        ).toBe(snippet.code);
      }
    }
  });
  it("tells keys from strings and numbers in JSON", () => {
    const kinds = highlight('{"a":"b","c":-1.5e3,"d":null}', "json").flatMap((token) =>
      token.kind ? [`${token.kind} ${token.text}`] : [],
    );
    expect(kinds).toEqual(['key "a"', 'string "b"', 'key "c"', "number -1.5e3", 'key "d"', "word null"]);
  });
  it("takes text of any language as it is", () => {
    for (const language of ["json", "shell", "go", "ts", "python", "hcl", "text"] satisfies Language[]) {
      const text = "a \"b 'c `d \\ # // \n \u2028 é 🐦";
      expect(
        highlight(text, language)
          .map((token) => token.text)
          .join(""),
      ).toBe(text);
    }
  });
});

describe("equivalents", () => {
  it("quotes for a shell", () => {
    expect(shellQuote("plain.name")).toBe("plain.name");
    expect(shellQuote("it's $HOME")).toBe(`'it'\\''s $HOME'`);
  });
  it("carries the filters and never a key", () => {
    const { curl, cli } = jobsEquivalents({ queue: "emails", state: ["dead", "held"], tag: "customer:a&b" });
    expect(curl).toContain("queue=emails&state=dead%2Cheld&tag=customer%3Aa%26b");
    expect(curl).toContain("$CORVO_API_KEY");
    expect(cli).toBe("corvo jobs --queue emails --state dead,held --tag 'customer:a&b'");
  });
  it("acts on dead jobs of one error by the error's group", () => {
    const { curl, cli } = deadEquivalents("emails", "5f0e6c9a1b2d3c4e");
    expect(curl).toContain("/dead?error_group=5f0e6c9a1b2d3c4e");
    expect(curl).toContain('{"action":"retry","filter":{"error_group":"5f0e6c9a1b2d3c4e"}}');
    expect(cli).toContain("corvo bulk retry --error-group 5f0e6c9a1b2d3c4e");
    expect(deadEquivalents("a b").cli).toContain("corvo dead --groups --queue 'a b'");
  });
  it("makes names that Terraform takes", () => {
    expect(queueTerraform({ name: "1.mails", paused: false })).toContain('resource "corvo_queue" "_1_mails"');
    expect(queueTerraform({ name: "m", paused: false, max_retries: 7, retry_backoff: "linear" })).toContain(
      '  retry = {\n    max_retries = 7\n    backoff     = "linear"\n  }',
    );
  });
});

it("masks a key so that it can be told but not used", () => {
  const key = `corvo_dp_${"a1B2".repeat(15)}z`;
  const masked = maskKey(key);
  expect(masked.startsWith("corvo_dp_a1B2")).toBe(true);
  expect(masked.replaceAll("•", "").length).toBeLessThan(20);
});

it("makes request ids without randomUUID", () => {
  const original = crypto.randomUUID;
  Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
  try {
    expect(newRequestId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(newRequestId()).not.toBe(newRequestId());
  } finally {
    Object.defineProperty(crypto, "randomUUID", { value: original, configurable: true });
  }
});
