import { createClient } from "@connectrpc/connect";
import { queryOptions } from "@tanstack/react-query";
import { FactorService } from "~/gen/corvo/cloud/v1/factor_pb";
import { SessionService } from "~/gen/corvo/cloud/v1/session_pb";
import { transport } from "./control";

/** The services about the person who is signed in. */
export const account = {
  factors: createClient(FactorService, transport),
  sessions: createClient(SessionService, transport),
} as const;

/** Reads of the account page. */
export const accountReads = {
  factors: () =>
    queryOptions({ queryKey: ["account", "factors"], queryFn: () => account.factors.listFactors({}) }),
  sessions: () =>
    queryOptions({
      queryKey: ["account", "sessions"],
      queryFn: async () => (await account.sessions.listSessions({})).sessions,
    }),
};
