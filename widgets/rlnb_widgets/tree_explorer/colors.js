// The colour of a value: one colour for the least, another for the greatest, grey between them.

const LOW = "c3";
const HIGH = "c0";
const MIDDLE = "line";
const STEPS = 32;

function channels(hex) {
  const short = hex.length === 4;
  return [0, 1, 2].map((i) => parseInt(short ? hex[i + 1].repeat(2) : hex.slice(2 * i + 1, 2 * i + 3), 16));
}

/** A colour between two, as rgb(...). */
export function mix(from, to, share) {
  const [a, b] = [channels(from), channels(to)];
  return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * share)).join(",")})`;
}

/** Make a function from a place between -1 and 1 to a colour; `role` looks colours up, see theme.js. */
export function diverging(role) {
  const [low, middle, high] = [role(LOW), role(MIDDLE), role(HIGH)];
  const table = Array.from({ length: 2 * STEPS + 1 }, (_, i) => {
    const place = i / STEPS - 1;
    return mix(middle, place < 0 ? low : high, Math.abs(place));
  });
  return (place) => (Number.isNaN(place) ? table[STEPS] : table[Math.round((place + 1) * STEPS)]);
}
