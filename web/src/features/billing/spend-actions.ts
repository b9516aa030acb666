import type { Option } from "~/components/ui/option";

/** What happens when a spend limit is reached. */
export const spendActions: readonly Option[] = [
  { value: "alert", label: "Alert", description: "Emails are sent and jobs go on." },
  {
    value: "hold",
    label: "Hold",
    description: "New jobs are accepted and wait; none starts until the next month or a higher limit.",
  },
  {
    value: "reject",
    label: "Reject",
    description:
      "New jobs are rejected and those that wait don't start, until the next month or a higher limit.",
  },
];
