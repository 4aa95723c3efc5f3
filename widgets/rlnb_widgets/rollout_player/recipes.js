// Columns of the strips' display list, made from the data that the page has: one per recipe of scene.py.

import { spans } from "./geometry.js";

/** Stretches [start, stop) in which a lane acts, cut where it was reset alone, within from .. to. */
export function acting(values, offset, from, to, waits, restart) {
  const found = [];
  let start = -1;
  for (let t = from; t < to; t++) {
    const code = values[offset + t];
    const idle = code < 0 || code % restart === waits;
    if (start >= 0 && (idle || code >= restart)) { found.push([start, t]); start = -1; }
    if (start < 0 && !idle) start = t;
  }
  if (start >= 0) found.push([start, to]);
  return found;
}

/** The columns of the list for the environments drawn: a function from the number of a column to its array. */
export function recipeColumns(head, columns, envs) {
  const known = new Map();
  const make = ([kind, lane, i, k, a, b = 0]) => {
    const e = envs()[lane];
    const of = (column) => columns[column].subarray(e * head.steps, (e + 1) * head.steps);
    const values = () => of(i === -1 ? head.code : head.strips[i].columns[k]);
    const where = (test, plus) => {
      const found = [];
      values().forEach((value, t) => { if (test(value)) found.push(t + plus); });
      return Int32Array.from(found);
    };
    const episodes = () => spans(of(head.code), 0, head.steps, head.kinds.indexOf("padding"));
    const resets = of(head.resets);
    switch (kind) {
      case "values": return values();
      case "mod": return where((v) => v >= 0 && v % 8 === a, b);
      case "is": return where((v) => v === a, b);
      case "lane": return where((v) => v >= 0 && v % head.restart === a, 1);
      case "again": return where((v) => v >= head.restart, a);
      case "acts": return Int32Array.from(acting(values(), 0, 0, head.steps, head.lanes.indexOf("waits"), head.restart), (pair) => pair[a]);
      case "cuts": return Int32Array.from(episodes().slice(1), ([start]) => start);
      // The settings of "ep" are the kind of reset before the episode (0: any), and whether its start or its stop.
      case "ep": return Int32Array.from(episodes().filter(([start]) => !i || resets[start] === i), (pair) => pair[k]);
      default: throw new Error(`unknown recipe ${kind}`);
    }
  };
  return (number) => {
    const key = `${envs().join()}/${number}`;
    if (!known.has(key)) known.set(key, make(head.recipes[number]));
    return known.get(key);
  };
}
