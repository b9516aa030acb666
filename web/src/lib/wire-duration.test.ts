import { expect, test } from "vitest";
import { shortDuration, wireDuration, wireMilliseconds } from "./wire-duration";

test("a length of time as the wire writes it", () => {
  expect([0, 500, 5_000, 90_000, 600_000, 7_200_000].map(wireDuration)).toEqual([
    "0s",
    "500ms",
    "5s",
    "90s",
    "10m",
    "2h",
  ]);
});

test("parts that are zero are left out", () => {
  expect(["24h0m0s", "1h30m0s", "90s", "1m0s", "10m30s"].map(shortDuration)).toEqual([
    "24h",
    "1h30m",
    "90s",
    "1m",
    "10m30s",
  ]);
});

test("what people write on the wire, in milliseconds", () => {
  expect(["5s", "1m30s", "1.5h", "250ms", "soon", "10 s", ""].map(wireMilliseconds)).toEqual([
    5_000,
    90_000,
    5_400_000,
    250,
    undefined,
    undefined,
    undefined,
  ]);
});
