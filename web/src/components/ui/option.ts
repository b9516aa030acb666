import type { ReactNode } from "react";

/** One of the values that a control offers. */
export interface Option<V extends string = string> {
  value: V;
  label: string;
  /** A second line in the list. */
  description?: string;
  icon?: ReactNode;
  disabled?: boolean;
}
