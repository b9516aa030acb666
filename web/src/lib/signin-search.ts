import { isOwnPath } from "./next";
import { searchOf } from "./search";

// Anybody can write a link to the sign-in page, so the link names a problem and never
// words it: a text from the address would speak in Corvo's name.
const problems = {
  session_ended: "Your session has ended. Sign in again to continue.",
} as const;

export type SigninProblem = keyof typeof problems;

/** What the page says about a problem that it was opened with. */
export function signinProblemText(problem: SigninProblem | undefined): string | undefined {
  return problem && problems[problem];
}

const word = (value: unknown) => (typeof value === "string" ? value : undefined);
const isKnown = (name: string | undefined): name is SigninProblem =>
  name !== undefined && Object.hasOwn(problems, name);

/** Reads the search of the sign-in page. Never refuses: nobody could sign in to repair the link. */
export const signinSearch = searchOf((search) => {
  const next = word(search.next);
  const problem = word(search.problem);
  return {
    // Only a path of ours: never another host.
    next: next && isOwnPath(next) ? next : undefined,
    problem: isKnown(problem) ? problem : undefined,
    tenant: word(search.tenant),
  };
});
