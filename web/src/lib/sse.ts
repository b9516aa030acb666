// A parser of server-sent events from chunks that may be cut anywhere.

export interface SseFrame {
  id: string;
  event: string;
  data: string;
}

/** Takes text, returns whole frames. Comments are dropped; a keepalive may move `lastId`. */
export class SseParser {
  #rest = "";
  #id = "";
  #lastId = "";
  #event = "";
  #data: string[] = [];

  /** Where to resume: the id of the last frame, also of one without data. */
  get lastId(): string {
    return this.#lastId;
  }

  push(chunk: string): SseFrame[] {
    const text = this.#rest + chunk;
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    const frames: SseFrame[] = [];
    for (const line of lines) {
      const frame = this.#line(line);
      if (frame) frames.push(frame);
    }
    return frames;
  }

  #line(line: string): SseFrame | null {
    if (line === "") {
      this.#lastId = this.#id;
      if (this.#data.length === 0) {
        this.#event = "";
        return null;
      }
      const frame = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") };
      this.#event = "";
      this.#data = [];
      return frame;
    }
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }
}
