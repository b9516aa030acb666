import { useId } from "react";

/** The mark: a corvid's head looking right, its throat feathers lifted. */
export function Mark({ className }: { className?: string }) {
  const sheen = useId();
  return (
    <svg viewBox="0 0 32 32" aria-hidden className={className}>
      <defs>
        <linearGradient id={sheen} x1="4" y1="28" x2="24" y2="4" gradientUnits="userSpaceOnUse">
          <stop offset="0" stopColor="var(--color-accent)" />
          <stop offset="1" stopColor="var(--color-ink)" />
        </linearGradient>
      </defs>
      <path
        fill={`url(#${sheen})`}
        d="M3.5 28.5c.6-8.8 1.6-13.9 4.2-17.9C10.3 6.600 14.300 4 18.600 4c3.300 0 6 1.300 7.900 3.700 2.400.300 3.800 1 4.700 2.300.300.500.100 1-.500 1.100l-7.900 1.700c-.5 3.100-2 5.600-4.300 7.300 .4 1.300 .3 2.500-.2 3.700-1.500-.6-2.700-1.400-3.600-2.400-.9 2-1 4.100-.3 6.400-2.700-.9-4.600-2.300-5.700-4.200-1.300 1.300-2.300 2.900-3 4.900z"
      />
      <circle cx="20.100" cy="9.700" r="1.450" fill="var(--color-surface)" />
    </svg>
  );
}

export function Wordmark() {
  return (
    <span className="inline-flex items-center gap-2">
      <Mark className="size-6" />
      <span className="text-16 font-semibold tracking-tight">Corvo</span>
    </span>
  );
}
