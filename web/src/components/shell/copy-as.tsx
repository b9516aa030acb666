import { createContext, type ReactNode, use, useEffect, useMemo, useState } from "react";

/** The page as curl, CLI and Terraform. Commands show $CORVO_API_KEY, never a key. */
export interface Equivalents {
  curl?: string;
  cli?: string;
  terraform?: string;
}

interface Registry {
  current: Equivalents | null;
  set: (equivalents: Equivalents | null) => void;
}

const Context = createContext<Registry>({ current: null, set: () => {} });

export function CopyAsProvider({ children }: { children: ReactNode }) {
  const [current, set] = useState<Equivalents | null>(null);
  const value = useMemo(() => ({ current, set }), [current]);
  return <Context value={value}>{children}</Context>;
}

/** Says what the page is as curl, CLI and Terraform, for the key "." and its button. */
export function useCopyAs(equivalents: Equivalents | null): void {
  const { set } = use(Context);
  const key = JSON.stringify(equivalents);
  useEffect(() => {
    set(JSON.parse(key) as Equivalents | null);
    return () => set(null);
  }, [key, set]);
}

/** What the page registered. */
export function useEquivalents(): Equivalents | null {
  return use(Context).current;
}
