// Formulas as text: "Q + c · √(ln N / n)". One text is shown with names and with numbers, and drawn as MathML.
//
// Between two terms stands one of + − ·; a slash binds more closely than these, and ln more closely than a slash.

import { hIn } from "../_core/core.js";

/** A number as formulas and tables show it: three digits after the point at the most, a true minus sign. */
export function short(x) {
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const digits = size >= 100 ? 1 : size >= 10 ? 2 : 3;
  const far = size >= 1e6 || (size < 0.001 && size > 0);
  return (far ? x.toExponential(1) : Number.isInteger(x) ? String(x) : x.toFixed(digits)).replace("-", "−");
}

/** A number of a column: three digits after the point, always. */
export const fixed = (x) => (Number.isFinite(x) ? x.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−") : short(x));

/** A number with two digits, for labels. */
export const brief = (x) => (Number.isNaN(x) ? "–" : x.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−"));

/** A formula with numbers in place of its names; `values` has them by name, and a name may be part of another. */
export function filled(formula, values) {
  const names = Object.keys(values).sort((a, b) => b.length - a.length).map((name) => name.replace(/[()/+]/g, "\\$&"));
  return formula.replace(new RegExp(`(?<![^\\s(])(${names.join("|")})(?![^\\s),])`, "g"), (name) => short(values[name]));
}

/** The terms of a formula: strings, and { kind, row } for what stands in brackets, below a root, or is a fraction. */
function parsed(formula) {
  const tokens = formula.match(/√\(|min\(¼,|[()]|[^\s()]+/g);
  let at = 0;
  const row = () => {
    const found = [];
    while (at < tokens.length && tokens[at] !== ")") found.push(term());
    at += 1;
    return found;
  };
  const term = () => {
    const over = closest();
    if (tokens[at] !== "/") return over;
    at += 1;
    return { kind: "/", row: [over, closest()] };
  };
  const closest = () => {
    const token = tokens[at];
    at += 1;
    if (token === "ln") return { kind: token, row: [closest()] };
    return token.includes("(") ? { kind: token, row: row() } : token;
  };
  return row();
}

const MATHML = "http://www.w3.org/1998/Math/MathML";
const make = (tag, ...children) => hIn(MATHML, tag, {}, ...children);

/** The formula as a MathML element, with a note behind it. */
export function math(formula, note = "") {
  const label = note ? `${formula} (${note})` : formula;
  const end = note && make("mtext", `\u00a0${note}`);
  const terms = parsed(formula).map((term) => drawn(term));
  return hIn(MATHML, "math", { displaystyle: "true", "aria-label": label }, make("mrow", ...terms, end));
}

/** The name of a function, with what separates it from its argument. */
const called = (name) => make("mrow", make("mi", name), hIn(MATHML, "mspace", { width: "0.2em" }));

// A fraction below a root is written with a slash: without a font for formulas a root does not grow as tall as it.
function drawn(term, low = false) {
  if (term === "max") return called(term);
  if (typeof term === "string") return make(/^[+−·=Σ]$/.test(term) ? "mo" : /^[−\d∞–]/.test(term) ? "mn" : "mi", term);
  const { kind } = term;
  const row = (parts) => parts.map((part) => drawn(part, low || kind === "√("));
  // A fraction shows by itself what its bars and a logarithm span.
  const bare = (part) => (part.kind === "(" && (kind === "/" || part.row.length === 1) ? make("mrow", ...row(part.row)) : row([part])[0]);
  if (kind === "√(") return make("msqrt", ...row(term.row));
  if (kind === "ln") return make("mrow", called("ln"), bare(term.row[0]));
  if (kind === "/") return low ? make("mrow", bare(term.row[0]), make("mo", "/"), bare(term.row[1])) : make("mfrac", ...term.row.map(bare));
  return make("mrow", make("mo", kind), ...row(term.row), make("mo", ")"));
}
