import { clsx } from "clsx";

/** Two letters of a name, so that tenants are told apart at a glance. */
export function Monogram({ name, className = "size-6" }: { name: string; className?: string }) {
  return (
    <span
      aria-hidden
      className={clsx(
        "grid shrink-0 place-items-center rounded-md bg-primary text-11 font-semibold text-primary-on uppercase",
        className,
      )}
    >
      {name.replace(/[^a-z0-9]/gi, "").slice(0, 2)}
    </span>
  );
}
