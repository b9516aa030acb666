import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { DirectorySyncSchema, ScimTokenSchema } from "~/gen/corvo/cloud/v1/directory_pb";
import { living, stateOf } from "./state";

const at = (minutes: number) => timestampFromMs(Date.now() + minutes * 60_000);
const token = (minutes: number) => create(ScimTokenSchema, { expiresAt: at(minutes) });
const sync = (fields: object) => create(DirectorySyncSchema, fields);

it("a token that has expired doesn't count", () => {
  expect(living([token(-1), token(1)])).toHaveLength(1);
});

it("the state goes by tokens, calls and refusals", () => {
  const states = {
    off: stateOf(sync({}), []),
    waiting: stateOf(sync({}), [token(1)]),
    on: stateOf(sync({ users: 1, lastCallAt: at(-2) }), [token(1)]),
    refused: stateOf(sync({ users: 1, lastCallAt: at(-2), lastErrorAt: at(-2) }), [token(1)]),
    stopped: stateOf(sync({ users: 1, lastCallAt: at(-2) }), [token(-1)]),
  };
  for (const [word, state] of Object.entries(states)) expect(state).toBe(word);
});

it("a refusal before the last call is over", () => {
  const over = sync({ users: 1, lastCallAt: at(-2), lastErrorAt: at(-9) });
  expect(stateOf(over, [token(1)])).toBe("on");
});
