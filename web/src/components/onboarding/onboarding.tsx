import { useMutation } from "@tanstack/react-query";
import { useRouteContext } from "@tanstack/react-router";
import { KeyRound, Play, Send, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { Tabs } from "~/components/ui/tabs";
import { toast } from "~/components/ui/toast";
import { admin } from "~/data/admin";
import { describeError } from "~/data/control";
import { jobsApi } from "~/data/jobs-api";
import { useLive, useLiveEvents } from "~/data/live";
import { heldKeys, holdKeys } from "~/data/onboarding";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import { advance, type FirstJob } from "~/lib/first-job";
import { newRequestId } from "~/lib/ids";
import {
  environment,
  maskKey,
  type SnippetLanguage,
  snippetLanguages,
  snippetNames,
  snippets,
} from "~/lib/snippets";
import { Checklist } from "./checklist";

const QUEUE = "hello";
const LANGUAGE = "corvo.language";

function rememberedLanguage(): SnippetLanguage {
  try {
    return snippetLanguages.find((language) => language === localStorage.getItem(LANGUAGE)) ?? "curl";
  } catch {
    return "curl";
  }
}

/** From nothing to a first completed job, on one page. */
export function Onboarding({ scope }: { scope: Scope }) {
  const { access } = useRouteContext({ from: "/$tenant" });
  const rights = useRights(scope);
  const live = useLive();
  const [first, setFirst] = useState<FirstJob>({});
  const [language, setLanguage] = useState(rememberedLanguage);
  const [key, setKey] = useState(() => heldKeys(scope.tenant, scope.namespace)?.apiKey);
  useLiveEvents((events) => setFirst((was) => events.reduce(advance, was)));

  const makeKey = useMutation({
    mutationFn: () =>
      admin.keys.createApiKey({
        tenant: scope.tenant,
        requestId: newRequestId(),
        name: "first steps",
        kind: KeyKind.JOBS,
        namespaces: [scope.namespace],
        roles: ["producer", "worker"],
      }),
    onSuccess: ({ secret }) => {
      setKey(secret);
      holdKeys({ ...scope, tenantUrl: access.tenantUrl, apiKey: secret, token: "" });
    },
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't create a key", description: describeError(error) }),
  });

  const enqueue = useMutation({
    mutationFn: () => jobsApi.enqueue(scope, { queue: QUEUE, payload: { name: "Ada", from: "console" } }),
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't enqueue the job", description: describeError(error) }),
  });

  function choose(next: SnippetLanguage) {
    setLanguage(next);
    try {
      localStorage.setItem(LANGUAGE, next);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  const url = access.tenantUrl;
  const shown = environment({ url, key: key ? maskKey(key) : "corvo_dp_…" });
  const whole = environment({ url, key: key ?? "corvo_dp_…" });

  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_21rem]">
      <Card>
        <div className="flex flex-col gap-5">
          <section className="flex flex-col gap-2">
            <div className="flex flex-wrap items-center justify-between gap-2">
              <h2 className="text-14 font-semibold">1. Point your shell at your tenant</h2>
              {key ? (
                <span className="text-12 text-ink-3">
                  Copying includes the whole key. Store it now; you won't see it again.
                </span>
              ) : (
                <Button
                  size="sm"
                  icon={<KeyRound aria-hidden />}
                  busy={makeKey.isPending}
                  blockedBecause={access.blocked(Permission.KEY_CREATE)}
                  onClick={() => makeKey.mutate()}
                >
                  Create a key
                </Button>
              )}
            </div>
            <CodeBlock
              code={shown.code}
              copyText={whole.code}
              language="shell"
              label="Environment"
              title={shown.title}
            />
          </section>
          <section className="flex flex-col gap-2">
            <h2 className="text-14 font-semibold">2. Enqueue a job and run it</h2>
            <Tabs
              label="Language"
              value={language}
              onChange={choose}
              tabs={snippetLanguages.map((name) => ({
                value: name,
                label: snippetNames[name],
                content: (
                  <div className="flex flex-col gap-3">
                    {snippets[name].map((snippet) => (
                      <CodeBlock
                        key={snippet.title}
                        code={snippet.code}
                        language={snippet.language}
                        label={snippet.title}
                        title={snippet.title}
                      />
                    ))}
                  </div>
                ),
              }))}
            />
          </section>
        </div>
      </Card>

      <div className="flex flex-col gap-4 max-lg:order-first lg:sticky lg:top-18">
        <Checklist scope={scope} status={live?.status ?? "idle"} first={first} />
        <section aria-label="Try it here" className="rounded-xl border border-line bg-surface p-4 shadow-1">
          <h2 className="text-13 font-semibold">No terminal at hand?</h2>
          <p className="mt-0.5 text-12 text-ink-3">
            These buttons do the same from this page, with a real job in the queue {QUEUE}.
          </p>
          <div className="mt-3 grid gap-2">
            <Button
              icon={<Send aria-hidden />}
              busy={enqueue.isPending}
              blockedBecause={rights.blocked(Permission.JOB_ENQUEUE, QUEUE)}
              onClick={() => enqueue.mutate()}
            >
              Enqueue test job
            </Button>
            <DemoWorker scope={scope} blockedBecause={rights.blocked(Permission.JOB_FETCH, QUEUE)} />
          </div>
        </section>
      </div>
    </div>
  );
}

/** A worker in this tab: fetches a job, holds it for a second, acks it. */
function DemoWorker({ scope, blockedBecause }: { scope: Scope; blockedBecause: string | undefined }) {
  const [running, setRunning] = useState(false);
  const abort = useRef<AbortController>(null);
  useEffect(() => () => abort.current?.abort(), []);

  async function run() {
    const controller = new AbortController();
    abort.current = controller;
    setRunning(true);
    try {
      while (!controller.signal.aborted) {
        const job = await jobsApi.fetchOne(scope, QUEUE, "console-demo", 10, controller.signal);
        if (!job) continue;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        const name = (job.payload as { name?: unknown } | null)?.name;
        await jobsApi.ack(scope, job, { said: `hello ${typeof name === "string" ? name : "you"}` });
      }
    } catch (error) {
      if (!controller.signal.aborted)
        toast({ kind: "error", title: "The demo worker stopped", description: describeError(error) });
    } finally {
      setRunning(false);
    }
  }

  return running ? (
    <Button icon={<Square aria-hidden className="fill-current" />} onClick={() => abort.current?.abort()}>
      Stop demo worker
    </Button>
  ) : (
    <Button icon={<Play aria-hidden />} blockedBecause={blockedBecause} onClick={() => void run()}>
      Run demo worker
    </Button>
  );
}
