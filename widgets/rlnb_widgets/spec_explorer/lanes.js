// Lanes of a domain without a page: the columns of their pictures, and the value that a click picks.

const MOST_CELLS = 24; // as many as Python draws

/** The columns of the pictures of a row by name: bars of its samples, and where the tried values are, legal or not. */
export function columnsOf(lanes, samples = null, dots = null) {
  const found = {};
  lanes.forEach((lane, i) => {
    const [unit, shift] = lane.kind === "line" ? [1, 0] : [Math.min(lane.n, MOST_CELLS) / lane.n, 0.5];
    const placesOf = (legal) => (dots?.[i] ?? []).filter((dot) => dot[1] === legal)
      .map(([place]) => (lane.kind === "line" || lane.kind === "choices" ? place + shift : Math.floor(place * unit) + shift));
    Object.assign(found, { [`levels${i}`]: samples?.levels?.[i] ?? [], [`legal${i}`]: placesOf(true), [`illegal${i}`]: placesOf(false) });
  });
  return (name) => found[name];
}

/** The parameters of the large picture: the numbers at the ends of its lines. */
export function paramsOf(lanes) {
  return Object.fromEntries(lanes.flatMap(({ view }, i) => (view ? [[`low${i}`, view[0]], [`high${i}`, view[1]]] : [])));
}

/** What a click picks where a picture has this value: a number on a line, else the number of a choice, cell or bit. */
export function pickedAt(lane, value) {
  if (lane.kind !== "line") return Math.floor(value);
  return lane.whole ? Math.round(value) : Number(value.toPrecision(3));
}

/**
 * The text of a value after a click on a lane: what is typed already is kept as far as it has the shape.
 *
 * found: from pickedAt. A click on a cell makes it the only one of its lane, a click on a bit turns it.
 */
export function withPicked(text, shape, lanes, lane, found) {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = flatOf(text, size) ?? startOf(size, lanes, shape);
  const last = shape.at(-1) ?? 1;
  const whole = (at, n) => (at ?? Array.from({ length: n }, (_, i) => i));
  if (lane.kind === "line" || lane.kind === "choices") {
    for (const i of whole(lane.at, size)) values[i] = lane.kind === "line" ? found : lane.start + found;
  } else {
    for (const lead of whole(lane.at, size / last)) {
      const begin = lead * last + (lane.begin ?? 0);
      if (lane.kind === "bits") values[begin + found] = values[begin + found] ? 0 : 1;
      else for (let i = 0; i < lane.n; i += 1) values[begin + i] = i === found ? 1 : 0;
    }
  }
  return JSON.stringify(nested(values, shape));
}

function flatOf(text, size) {
  try {
    const flat = [JSON.parse(text.replace(/\bTrue\b/g, "1").replace(/\bFalse\b/g, "0"))].flat(Infinity);
    return flat.length === size && flat.every((x) => typeof x === "number") ? flat : null;
  } catch {
    return null;
  }
}

function startOf(size, lanes, shape) {
  const values = Array(size).fill(0);
  const last = shape.at(-1) ?? 1;
  for (const lane of lanes) {
    const first = [...Array(lane.n ?? 0).keys()].find((i) => !(lane.barred ?? []).includes(i)) ?? 0;
    if (lane.kind === "cells") {
      for (let lead = 0; lead < size / last; lead += 1) {
        if (!lane.at || lane.at.includes(lead)) values[lead * last + (lane.begin ?? 0) + first] = 1;
      }
    }
    if (lane.kind === "bits" || lane.kind === "cells") continue;
    const start = lane.kind === "choices" ? lane.start + first : lane.legal;
    for (let i = 0; i < size; i += 1) if (!lane.at || lane.at.includes(i)) values[i] = start;
  }
  return values;
}

/** Numbers as a list nested to a shape; a bare number for no dimensions. */
export function nested(values, shape) {
  if (shape.length === 0) return values[0];
  if (shape.length === 1) return values;
  const each = values.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => nested(values.slice(i * each, (i + 1) * each), shape.slice(1)));
}
