import { createClient } from "@connectrpc/connect";
import { queryOptions } from "@tanstack/react-query";
import { DirectoryService } from "~/gen/corvo/cloud/v1/directory_pb";
import { transport } from "./control";

/** Directory sync of single sign-on connections. Apart from admin.ts, which the first page loads. */
export const directory = createClient(DirectoryService, transport);

export const directoryReads = {
  /** Read again while the page is open: the next call is the directory's. */
  sync: (tenant: string, connectionId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "directory", connectionId],
      queryFn: async () => (await directory.getDirectorySync({ tenant, connectionId })).sync,
      refetchInterval: 5_000,
    }),
  tokens: (tenant: string, connectionId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "directory", connectionId, "tokens"],
      queryFn: async () => (await directory.listScimTokens({ tenant, connectionId })).tokens,
    }),
} as const;
