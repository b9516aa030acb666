// Units of the drawing; it is stretched to the room there is.
const STEP = 4;
const BAR = 3;
const HEIGHT = 40;

export interface Bar {
  key: string;
  /** From 0 to 1. */
  height: number;
  /** It isn't over yet. */
  runs?: boolean;
}

interface BarsProps {
  /** What the bars say, as a sentence; the numbers belong into a table beside them. */
  label: string;
  bars: readonly Bar[];
  /** The color of a bar, as a class. */
  fill: string;
}

/** A number over time, drawn small. */
export function Bars({ label, bars, fill }: BarsProps) {
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${Math.max(1, bars.length) * STEP} ${HEIGHT}`}
      preserveAspectRatio="none"
      className="mt-2 block h-10 w-full"
    >
      {bars.map(({ key, height, runs }, index) => {
        const drawn = height > 0 ? Math.max(2, height * HEIGHT) : 1;
        return (
          <rect
            key={key}
            x={index * STEP}
            y={HEIGHT - drawn}
            width={BAR}
            height={drawn}
            className={height > 0 ? fill : "fill-line-strong"}
            opacity={runs ? 0.5 : 1}
          />
        );
      })}
    </svg>
  );
}
