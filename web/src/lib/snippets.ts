import type { Language } from "./highlight";

export const snippetLanguages = ["curl", "go", "typescript", "python"] as const;
export type SnippetLanguage = (typeof snippetLanguages)[number];

export const snippetNames: Record<SnippetLanguage, string> = {
  curl: "curl",
  go: "Go",
  typescript: "Node.js",
  python: "Python",
};

export interface Snippet {
  title: string;
  language: Language;
  code: string;
}

/** Where and as whom the snippets call. The key may be a placeholder. */
export interface SnippetTarget {
  url: string;
  key: string;
}

/** The variables to set before running the other snippets. */
export function environment({ url, key }: SnippetTarget): Snippet {
  return {
    title: "Once, in your terminal",
    language: "shell",
    code: `export CORVO_URL=${url}\nexport CORVO_API_KEY=${key}`,
  };
}

const curl: Snippet[] = [
  {
    title: "Enqueue a job",
    language: "shell",
    code: `curl "$CORVO_URL/api/v1/enqueue" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queue": "hello", "payload": {"name": "Ada"}}'`,
  },
  {
    title: "Act as the worker: fetch the job, then complete it",
    language: "shell",
    code: `JOB=$(curl -s "$CORVO_URL/api/v1/fetch" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queues": ["hello"], "worker_id": "terminal", "timeout": 30}' \\
  | sed -E 's/.*"job_id": *"([^"]+)".*/\\1/')

curl "$CORVO_URL/api/v1/ack/$JOB" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"result": {"said": "hello Ada"}}'`,
  },
];

const go: Snippet[] = [
  {
    title: "Use the module from your clone (not published yet)",
    language: "shell",
    code: `go mod init hello
go work init . ~/corvo/sdks/go ~/corvo/data-plane/api`,
  },
  {
    title: "main.go: enqueue and work",
    language: "go",
    code: `package main

import (
	"context"
	"log"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Hello struct {
	Name string \`json:"name"\`
}

func (Hello) Kind() string { return "hello" }

func main() {
	ctx := context.Background()
	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Enqueue(ctx, Hello{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}

	w := corvo.NewWorker(client, corvo.Queue("hello", 20))
	corvo.Handle(w, func(ctx context.Context, j *corvo.Job[Hello]) (string, error) {
		return "hello " + j.Args.Name, nil
	})
	log.Fatal(w.Run(ctx))
}`,
  },
];

const typescript: Snippet[] = [
  {
    title: "hello.mjs: enqueue and work (node hello.mjs)",
    language: "ts",
    code: `const { CORVO_URL, CORVO_API_KEY } = process.env;

async function corvo(path, body) {
  const response = await fetch(\`\${CORVO_URL}/api/v1\${path}\`, {
    method: "POST",
    headers: { "X-API-Key": CORVO_API_KEY, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return response.status === 204 ? null : response.json();
}

await corvo("/enqueue", { queue: "hello", payload: { name: "Ada" } });

const job = await corvo("/fetch", { queues: ["hello"], worker_id: "node", timeout: 30 });
if (job) {
  const result = { said: \`hello \${job.payload.name}\` };
  await corvo(\`/ack/\${job.job_id}\`, { lease_token: job.lease_token, result });
  console.log(result);
}`,
  },
];

const python: Snippet[] = [
  {
    title: "hello.py: enqueue and work (python3 hello.py)",
    language: "python",
    code: `import json, os, urllib.request

def corvo(path, body):
    request = urllib.request.Request(
        os.environ["CORVO_URL"] + "/api/v1" + path,
        data=json.dumps(body).encode(),
        headers={"X-API-Key": os.environ["CORVO_API_KEY"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read() or "null")

corvo("/enqueue", {"queue": "hello", "payload": {"name": "Ada"}})

job = corvo("/fetch", {"queues": ["hello"], "worker_id": "python", "timeout": 30})
if job:
    result = {"said": "hello " + job["payload"]["name"]}
    corvo("/ack/" + job["job_id"], {"lease_token": job["lease_token"], "result": result})
    print(result)`,
  },
];

export const snippets: Record<SnippetLanguage, Snippet[]> = { curl, go, typescript, python };

/** A key as it may stand on a screen: its kind and id, and four characters at the end. */
export function maskKey(key: string): string {
  return key.startsWith("corvo_") && key.length > 30
    ? `${key.slice(0, 13)}${"•".repeat(12)}${key.slice(-4)}`
    : key;
}
