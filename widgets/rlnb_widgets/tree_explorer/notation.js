// Formulas as small trees: written as plain text for screen readers and tests, and drawn as MathML.
//
// A formula is a string (an operator), ["num", x], ["name", text], ["words", text], ["frac", a, b], ["root", x] or
// ["row", ...parts].

/** A number as formulas and tables show it: three digits after the point at the most, a true minus sign. */
export function short(x) {
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = Number.isInteger(x) && size < 1e6 ? String(x) : size !== 0 && (size < 0.001 || size >= 1e6) ? x.toExponential(1) : size >= 100 ? x.toFixed(1) : size >= 10 ? x.toFixed(2) : x.toFixed(3);
  return text.replace("-", "−");
}

/** A number of a column: three digits after the point, always. */
export const fixed = (x) => (Number.isFinite(x) ? x.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−") : short(x));

/** A number with two digits, for labels. */
export const brief = (x) => (Number.isNaN(x) ? "–" : x.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−"));

export const num = (x) => ["num", x];

/** A number that follows an operator: in brackets where it is negative. */
export const minus = (x) => (x < 0 ? ["row", "(", num(x), ")"] : num(x));

/** A value as a rule scores it: mapped from what returns lie between to -1 to 1, where that is not the same. */
export function mapped({ middle, half }, value) {
  const shifted = middle === 0 ? value : ["row", value, middle < 0 ? "+" : "−", num(Math.abs(middle))];
  return half === 1 ? (middle === 0 ? value : ["row", "(", shifted, ")"]) : ["frac", shifted, num(half)];
}

/** The formula in one line of text. */
export function plain(formula) {
  if (typeof formula === "string") return formula;
  const [kind, ...parts] = formula;
  if (kind === "num") return short(parts[0]);
  if (kind === "name") return parts[0];
  if (kind === "words") return `(${parts[0]})`;
  if (kind === "frac") return `${closed(parts[0])} / ${closed(parts[1])}`;
  if (kind === "root") return `√(${plain(parts[0])})`;
  return parts.map(plain).join(" ").replace(/\( /g, "(").replace(/ \)/g, ")");
}

const closed = (part) => (Array.isArray(part) && part[0] === "row" && part.length > 2 && part[1] !== "ln" ? `(${plain(part)})` : plain(part));

const SPACE = "http://www.w3.org/1998/Math/MathML";

function make(tag, ...children) {
  const element = document.createElementNS(SPACE, tag);
  element.append(...children);
  return element;
}

/** The formula as a MathML element. */
export function math(formula) {
  const element = make("math", inner(formula));
  element.setAttribute("displaystyle", "true");
  element.setAttribute("aria-label", plain(formula));
  return element;
}

/** What separates the name of a function from its argument. */
function space() {
  const gap = make("mspace");
  gap.setAttribute("width", "0.2em");
  return gap;
}

// A fraction below a root is written with a slash: without a font for formulas a root does not grow as tall as it.
function inner(formula, low = false) {
  if (typeof formula === "string") return /^[a-z]+$/.test(formula) ? make("mrow", make("mi", formula), space()) : make("mo", formula);
  const [kind, ...parts] = formula;
  if (kind === "num") return make("mn", short(parts[0]));
  if (kind === "name") return make("mi", parts[0]);
  if (kind === "words") return make("mtext", `\u00a0${parts[0]}`);
  if (kind === "frac") return low ? make("mrow", inner(parts[0], low), make("mo", "/"), inner(parts[1], low)) : make("mfrac", inner(parts[0]), inner(parts[1]));
  if (kind === "root") return make("msqrt", inner(parts[0], true));
  return make("mrow", ...parts.map((part) => inner(part, low)));
}
