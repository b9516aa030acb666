// A name server that knows the TXT records that tests give it, and nothing else.
import { createSocket, type Socket } from "node:dgram";

const nameStart = 12; // Behind the header.

export class NameServer {
  private readonly records = new Map<string, string>();

  private constructor(
    private readonly socket: Socket,
    readonly address: string,
  ) {
    socket.on("message", (query, from) => socket.send(this.answer(query), from.port, from.address));
  }

  static async start(): Promise<NameServer> {
    const socket = createSocket("udp4");
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    return new NameServer(socket, `127.0.0.1:${socket.address().port}`);
  }

  set(name: string, value: string): void {
    this.records.set(name.toLowerCase(), value);
  }

  delete(name: string): void {
    this.records.delete(name.toLowerCase());
  }

  async end(): Promise<void> {
    await new Promise<void>((resolve) => this.socket.close(() => resolve()));
  }

  /** RFC 1035, 4.1: the question again, then the record, or that there is no such name. */
  private answer(query: Buffer): Buffer {
    const labels: string[] = [];
    let at = nameStart;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString("ascii", at + 1, at + 1 + length));
      at += 1 + length;
    }
    const question = query.subarray(nameStart, at + 5); // A zero, type and class.
    const value = this.records.get(labels.join(".").toLowerCase());
    const header = Buffer.alloc(nameStart);
    query.copy(header, 0, 0, 2);
    header.writeUInt16BE(value === undefined ? 0x8183 : 0x8180, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(value === undefined ? 0 : 1, 6);
    if (value === undefined) return Buffer.concat([header, question]);
    const text = Buffer.from(value);
    // A pointer to the name, TXT, IN, no time to live, and the length of one text.
    const record = Buffer.from([0xc0, nameStart, 0, 16, 0, 1, 0, 0, 0, 0, 0, text.length + 1, text.length]);
    return Buffer.concat([header, question, record, text]);
  }
}
