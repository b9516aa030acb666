// The browser of the journeys and pictures, from the system's packages; see
// tools/install-chromium.
import { existsSync } from "node:fs";

// Both are one browser, of one version. The shell has no windows of its own, and takes two
// thirds of the CPU.
const shell = "/usr/bin/chromium-headless-shell";
const whole = "/usr/bin/chromium";

/** The path of the browser; CHROMIUM names another one. */
export const browser = process.env.CHROMIUM ?? (existsSync(shell) ? shell : whole);
