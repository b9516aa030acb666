// A light colouring of the few languages that the console shows. It never loses a
// character: the tokens joined are the text.

export type Language = "json" | "shell" | "go" | "ts" | "python" | "hcl" | "text";

export interface Token {
  text: string;
  kind?: "key" | "string" | "number" | "word" | "comment";
}

const words: Partial<Record<Language, string>> = {
  go: "package import func return if for range err nil var const type struct defer go map string int true false",
  ts: "import from const let await async function return if for of while new type export try catch true false null undefined",
  python: "import from def return if for in while with as try except not None True False and or",
  hcl: "resource data provider terraform required_providers ephemeral true false null",
  shell: "curl corvo export npm npx go python3 pip terraform",
};

const comments: Partial<Record<Language, string>> = {
  go: "\\/\\/[^\\n]*",
  ts: "\\/\\/[^\\n]*",
  python: "#[^\\n]*",
  hcl: "#[^\\n]*",
  shell: "(?<=^|\\s)#[^\\n]*",
};

const string = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\]|\\.)*'|\x60[^\x60]*\x60`;
const number = String.raw`-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b`;

function grammar(language: Language): RegExp | null {
  if (language === "text") return null;
  if (language === "json")
    return new RegExp(
      String.raw`(?<key>"(?:[^"\\\n]|\\.)*"(?=\s*:))|(?<string>${string})|(?<number>${number})|(?<word>\b(?:true|false|null)\b)`,
      "gm",
    );
  const comment = comments[language];
  const list = words[language]?.split(" ").join("|");
  const flag = language === "shell" ? String.raw`|(?<key>(?<=\s)--?[a-zA-Z][\w-]*)` : "";
  return new RegExp(
    `${comment ? `(?<comment>${comment})|` : ""}(?<string>${string})|(?<number>${number})|(?<word>\\b(?:${list})\\b)${flag}`,
    "gm",
  );
}

const grammars = new Map<Language, RegExp | null>();

export function highlight(code: string, language: Language): Token[] {
  if (!grammars.has(language)) grammars.set(language, grammar(language));
  const pattern = grammars.get(language);
  if (!pattern || code.length > 100_000) return [{ text: code }];
  const tokens: Token[] = [];
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    if (match.index > end) tokens.push({ text: code.slice(end, match.index) });
    const kind = Object.entries(match.groups ?? {}).find(
      ([, text]) => text !== undefined,
    )?.[0] as Token["kind"];
    tokens.push(kind ? { text: match[0], kind } : { text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < code.length) tokens.push({ text: code.slice(end) });
  return tokens;
}
