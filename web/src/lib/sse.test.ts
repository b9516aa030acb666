import { expect, it } from "vitest";
import { type SseFrame, SseParser } from "./sse";

const wire = 'id: 7\nevent: started\ndata: {"seq":7}\n\n:keepalive\n\nid: 8\ndata: a\ndata: b\n\n';

function parse(chunks: string[]): SseFrame[] {
  const parser = new SseParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
}

const whole: SseFrame[] = [
  { id: "7", event: "started", data: '{"seq":7}' },
  { id: "8", event: "message", data: "a\nb" },
];

it("reads frames and passes over keepalives", () => {
  expect(parse([wire])).toEqual(whole);
});

it("does not care where the network cuts", () => {
  for (let cut = 0; cut <= wire.length; cut++)
    expect(parse([wire.slice(0, cut), wire.slice(cut)])).toEqual(whole);
  expect(parse([...wire])).toEqual(whole);
});

it("takes every kind of line end, cut anywhere", () => {
  const crlf = wire.replaceAll("\n", "\r\n");
  for (let cut = 0; cut <= crlf.length; cut++)
    expect(parse([crlf.slice(0, cut), crlf.slice(cut)])).toEqual(whole);
});

it("keeps an unfinished frame back", () => {
  expect(parse(["id: 9\ndata: half\n"])).toEqual([]);
});

it("moves the place to resume at with whole frames only, also those without data", () => {
  const parser = new SseParser();
  const lastIds = ["id: 7\ndata: a\n\n", ":keepalive\nid: 9\n", "\n", "id: 10\ndata: half"].map((chunk) => {
    parser.push(chunk);
    return parser.lastId;
  });
  expect(lastIds).toEqual(["7", "7", "9", "9"]);
});
