/** A refusal of the data plane. */
export class DataError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | undefined;
  readonly fields: Record<string, string>;

  constructor(
    status: number,
    code: string,
    message: string,
    requestId?: string,
    fields: Record<string, string> = {},
  ) {
    super(message);
    this.name = "DataError";
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.fields = fields;
  }
}
