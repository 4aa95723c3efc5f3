// Canvas painter of display lists (display.py): the live view of what the SVG writer draws.

import { palette, penOf, stage } from "./canvas.js";
import { clamp, typed } from "./data.js";
import { h } from "./dom.js";
import { BUCKET, FAINT, CLIP_ROOM, HALO, RULE_ROOM, SHADES, SPAN_ROOM, cutText, formatValue, search, spent, textWidth, thin, ticks } from "./measures.js";

const SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
const MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const TURN = 2 * Math.PI;

/** Display lists by name as packing.py writes them, each mark with the attributes of its look. */
export function unpacked({ looks, lists }) {
  const unpack = ([look, ...values]) => {
    const [common, ...names] = looks[look];
    const own = names.map((name, i) => [name, name === "marks" ? values[i].map(unpack) : values[i]]);
    return { ...common, ...Object.fromEntries(own) };
  };
  return Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, { ...list, marks: list.marks.map(unpack) }]));
}

/** The columns of display lists as arrays of numbers, each decoded when it is first read. */
export function columnsOf(kept, blob) {
  const known = new Map();
  return (i) => {
    if (!known.has(i)) {
      const [kind, start, count, unit] = kept[i];
      const stored = typed(blob, kind, start, count);
      known.set(i, unit ? Float64Array.from(stored, (value) => value * unit) : stored);
    }
    return known.get(i);
  };
}

/** Paint marks with a pen; `width` is that of the picture, `column` from columnsOf, `params` the values of parameters. */
export function paint(pen, marks, { width, params, column, color }) {
  const painter = { pen, width, params, column, color };
  draw(painter, marks, pageOf(width));
}

/** Paint a display list once on a canvas, as wide as the canvas is shown: for many small pictures, which somebody else paints anew. */
export function paintOnce(canvas, display, { params = {}, column = () => [] } = {}) {
  const width = canvas.clientWidth;
  if (width) paint(penOf(canvas, width, display.height), display.marks, { width, params, column, color: palette(canvas) });
}

/** The topmost hit area at a point: { name, tip, value }, the value in the domain of its frame; null without one. */
export function hitAt(marks, { width, params }, px, py) {
  let found = null;
  const visit = (list, place, px, py) => {
    for (const mark of list) {
      if (mark.kind === "group" && mark.show !== undefined && !number(params, mark.show)) continue;
      if (mark.kind === "group" && mark.at) {
        const origin = originOf(params, mark, place);
        if (!origin) continue;
        const [dx, dy, cos, sin] = [px - origin.x, py - origin.y, Math.cos(origin.turn), Math.sin(origin.turn)];
        visit(mark.marks, pageOf(1), (dx * cos + dy * sin) / origin.scale, (dy * cos - dx * sin) / origin.scale);
      } else if (mark.kind === "group") visit(mark.marks, inside({ width, params }, mark, place), px, py);
      else if (mark.kind === "hit") {
        const [a, b, top] = boxOf({ params }, place, mark);
        if (px >= a && px < b && py >= top && py < top + number(params, mark.h)) {
          found = { name: mark.name, tip: mark.tip, value: place.low + (px - place.left) / scaleOf(place) };
        }
      }
    }
  };
  visit(marks, pageOf(width), px, py);
  return found;
}

/**
 * Show a display list in an element that is as high as the list: { el, invalidate, at, show, destroy }. Where the style
 * sheet sets --rlnb-zoom, such as in the whole window, it is larger by this factor.
 *
 * params() gives the values of parameters at the moment. In a list with much to paint `moving` names those that change
 * often: what is below the first mark that depends on one has a canvas of its own, painted when others change.
 * at(event) is the hit under a pointer, and tipOf(hit or null, event) what the tooltip says there; show(display, column)
 * shows another list.
 */
export function surface(display, column, { params = () => ({}), moving = [], tipOf = (hit) => hit?.tip, ...attributes } = {}) {
  const tip = h("div", { class: "rlnb-tip", hidden: true });
  const el = h("div", { role: attributes["aria-label"] ? "img" : null, ...attributes, style: "position:relative" }, tip);
  let marks = [];
  let still = 0; // how many marks are on the canvas below
  let painted = null;
  const zoom = () => Number(getComputedStyle(el).getPropertyValue("--rlnb-zoom")) || 1;
  const layer = (some) => stage(el, (pen, { width, color }) => {
    const larger = zoom();
    pen.scale(larger, larger);
    paint(pen, some(), { width: width / larger, params: params(), column, color });
  });
  const below = moving.length ? layer(() => marks.slice(0, still)) : null;
  const above = layer(() => marks.slice(still));
  const invalidate = () => {
    above.invalidate();
    const state = JSON.stringify(params(), (name, value) => (moving.includes(name) ? undefined : value));
    if (state !== painted) below?.invalidate();
    painted = state;
  };
  const show = (list, columns) => {
    column = columns;
    marks = list.marks;
    still = marks.findIndex((mark) => moving.some((name) => JSON.stringify(mark).includes(`"param":"${name}"`)));
    if (still < 0) still = below ? marks.length : 0;
    painted = null;
    el.style.height = `calc(${list.height}px * var(--rlnb-zoom, 1))`;
    invalidate();
  };
  const destroy = () => { below?.destroy(); above.destroy(); };
  const at = (event) => {
    const [box, larger] = [el.getBoundingClientRect(), zoom()];
    return hitAt(marks, { width: box.width / larger, params: params() }, (event.clientX - box.left) / larger, (event.clientY - box.top) / larger);
  };
  el.addEventListener("pointermove", (event) => {
    const words = tipOf(at(event), event);
    tip.hidden = !words;
    if (!words) return;
    const box = el.getBoundingClientRect();
    tip.textContent = words;
    tip.style.left = `${clamp(event.clientX - box.left + 12, 0, box.width - tip.offsetWidth)}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  });
  el.addEventListener("pointerleave", () => { tip.hidden = true; });
  if (display) show(display, column);
  return { el, at, show, invalidate, destroy };
}

/** Where marks outside of frames are, in pixels of a page as wide as this. */
const pageOf = (width, down = 0) => ({ left: 0, right: width, low: 0, high: width, down });
const number = (params, value) => (typeof value === "number" ? value : params[value.param] + (value.plus ?? 0));
const scaleOf = ({ left, right, low, high }) => (right - left) / (high - low || 1);
const xOf = (place, value) => place.left + (value - place.low) * scaleOf(place);
/** Where the point of a mark is, in pixels. */
const pointOf = ({ params }, place, { x, y }) => [xOf(place, number(params, x)), number(params, y) + place.down];

/** The left and the right edge of a mark, and its top. */
const boxOf = ({ params }, place, { x, x2, y }) => [...[x, x2].map((value) => xOf(place, number(params, value))), number(params, y) + place.down];
/** Number of the columns of pixels in which shares of a long series are drawn. */
const bucketsOf = ({ left, right }) => Math.max(Math.round((right - left) / BUCKET), 1);

function inside({ width, params }, mark, place) {
  const next = { ...place, down: place.down + number(params, mark.y ?? 0) };
  const domain = mark.domain ?? mark.part;
  if (!domain) return next;
  const [left, right] = mark.part ? mark.part.map((value) => xOf(place, number(params, value))) : [mark.left, width - mark.right];
  const [low, high] = domain.map((value) => number(params, value));
  return { ...next, left, right, low, high };
}

/** Where the origin of a placed group is, { x, y, turn, scale }; null if it is hidden. */
function originOf(params, mark, place) {
  const at = Array.isArray(mark.at) ? mark.at.map((value) => number(params, value)) : params[mark.at.param];
  return at ? { x: xOf(place, at[0]), y: at[1] + place.down, turn: at[2], scale: mark.scale ?? 1 } : null;
}

function draw(painter, marks, place) {
  for (const mark of marks) DRAW[mark.kind](painter, mark, place);
}

function placed(painter, mark, place) {
  const { pen, params } = painter;
  const origin = originOf(params, mark, place);
  if (!origin) return;
  pen.save();
  pen.translate(origin.x, origin.y);
  pen.rotate(origin.turn);
  pen.scale(origin.scale, origin.scale);
  if (mark.size) {
    pen.beginPath();
    pen.rect(0, 0, ...mark.size);
    pen.clip();
  }
  draw(painter, mark.marks, pageOf(1));
  pen.restore();
}

/** Fill and outline the path of the pen as a mark says. */
function finish({ pen, color }, mark) {
  pen.globalAlpha = mark.opacity ?? 1;
  if (mark.fill) {
    pen.fillStyle = color(mark.fill);
    pen.fill();
  }
  if (mark.stroke) {
    pen.strokeStyle = color(mark.stroke);
    pen.lineWidth = mark.width ?? 1;
    pen.lineCap = mark.round ? "round" : "butt";
    pen.lineJoin = mark.round ? "round" : "miter";
    pen.setLineDash(mark.dash ?? []);
    pen.stroke();
    pen.setLineDash([]);
  }
  pen.globalAlpha = 1;
}

/** Add the part of a ring between two turns to the path of the pen. */
function sectorPath(pen, at, { r, r2 }, turn, turn2) {
  const [from, to] = [turn, turn2].map((value) => (value - 0.25) * TURN);
  pen.moveTo(at[0] + r2 * Math.cos(from), at[1] + r2 * Math.sin(from));
  pen.arc(...at, r2, from, to);
  if (r === r2) return;
  pen.arc(...at, r, to, from, true);
  pen.closePath();
}

const DRAW = {
  group(painter, mark, place) {
    const { pen, params } = painter;
    if (mark.show !== undefined && !number(params, mark.show)) return;
    if (mark.at) return placed(painter, mark, place);
    const inner = inside(painter, mark, place);
    if (!mark.clip) return draw(painter, mark.marks, inner);
    pen.save();
    pen.beginPath();
    pen.rect(inner.left - CLIP_ROOM, 0, inner.right - inner.left + 2 * CLIP_ROOM, pen.canvas.height);
    pen.clip();
    draw(painter, mark.marks, inner);
    pen.restore();
  },

  rect(painter, mark, place) {
    const { pen, params } = painter;
    const grow = mark.grow ?? 0;
    const [x, x2, y] = boxOf(painter, place, mark);
    pen.beginPath();
    pen.roundRect(x - grow, y, Math.max(x2 - x + 2 * grow, mark.least ?? 0), number(params, mark.h), mark.radius ?? 0);
    finish(painter, mark);
  },

  poly(painter, mark, place) {
    const { pen } = painter;
    // About a point, such as those of a glyph, points are in pixels.
    const [left, top] = mark.x === undefined ? [] : pointOf(painter, place, mark);
    const at = ([x, y]) => (top === undefined ? pointOf(painter, place, { x, y }) : [left + x, top + y]);
    pen.beginPath();
    let step = "moveTo";
    for (const point of mark.points) {
      if (point) pen[step](...at(point));
      step = point ? "lineTo" : "moveTo"; // null is a gap
    }
    if (mark.fill || mark.closed) pen.closePath();
    finish(painter, mark.fill || mark.closed ? mark : { stroke: "line", ...mark });
  },

  disc(painter, mark, place) {
    const { pen } = painter;
    pen.beginPath();
    pen.arc(...pointOf(painter, place, mark), mark.r, 0, TURN);
    finish(painter, mark);
  },

  sectors(painter, mark, place) {
    const { pen, params, column } = painter;
    const at = pointOf(painter, place, mark);
    // A part by itself has its turns in the list.
    const [starts, stops] = [mark.starts, mark.stops].map((turns) => (Array.isArray(turns) ? turns.map((turn) => number(params, turn)) : column(turns)));
    const kinds = mark.kinds === undefined ? null : column(mark.kinds);
    mark.looks.forEach((look, kind) => {
      pen.beginPath();
      for (let i = 0; i < starts.length; i++) {
        if ((kinds ? kinds[i] : 0) !== kind) continue;
        if (mark.dot) {
          const [r, angle] = [(mark.r + mark.r2) / 2, (TURN * (starts[i] + stops[i])) / 2];
          const [x, y] = [at[0] + r * Math.sin(angle), at[1] - r * Math.cos(angle)];
          pen.moveTo(x + mark.dot, y);
          pen.arc(x, y, mark.dot, 0, TURN);
        } else sectorPath(pen, at, mark, starts[i], stops[i]);
      }
      finish(painter, look);
    });
  },

  text(painter, mark, place) {
    const { pen, params, color } = painter;
    const size = mark.size ?? 11;
    pen.font = `${mark.bold ? "600 " : ""}${size}px ${mark.mono ? MONO : SANS}`;
    pen.textAlign = { middle: "center", end: "right" }[mark.anchor] ?? "left";
    pen.textBaseline = "alphabetic";
    pen.fillStyle = color(mark.fill ?? "ink");
    const text = typeof mark.text === "string" ? mark.text : String(params[mark.text.param]);
    const words = mark.within === undefined ? text : cutText(text, mark.within, size);
    const at = pointOf(painter, place, mark);
    if (mark.halo) {
      Object.assign(pen, { strokeStyle: color(mark.halo), lineWidth: HALO, lineJoin: "round" });
      pen.strokeText(words, ...at);
    }
    pen.fillText(words, ...at);
  },

  hit() {},

  spans(painter, mark, place) {
    const { pen, column, color } = painter;
    const series = mark.series.map(([a, b, role]) => {
      const [starts, stops] = [column(a), column(b)];
      return { starts, stops, role, first: search(stops, place.low, true), last: search(starts, place.high) };
    });
    const seen = series.reduce((sum, { first, last }) => sum + Math.max(last - first, 0), 0);
    const base = new Float64Array(bucketsOf(place));
    const crowded = seen * SPAN_ROOM > place.right - place.left;
    pen.globalAlpha = mark.opacity ?? 1;
    for (const { starts, stops, first, last, role } of series) {
      pen.fillStyle = color(role);
      if (crowded) stack(pen, spent(starts, stops, first, last, place.low, place.high, new Float64Array(base.length)), base, 0.01, mark, place);
      else for (let i = first; i < last; i++) apart(pen, starts[i], stops[i], mark, place);
    }
    pen.globalAlpha = 1;
  },

  curve(painter, mark, place) {
    const { pen, params, column, color } = painter;
    const values = column(mark.values);
    const cuts = mark.cuts === undefined ? [] : [...column(mark.cuts)];
    const [bottom, top] = [number(params, mark.low), number(params, mark.high)];
    const span = top - bottom;
    const ends = [...cuts, values.length];
    const lone = [];
    const places = mark.places === undefined ? null : column(mark.places);
    pen.beginPath();
    [0, ...cuts].forEach((begin, k) => {
      const start = places ? begin : Math.max(begin, Math.floor(place.low));
      const stop = places ? ends[k] : Math.min(ends[k], Math.ceil(place.high));
      if (stop <= start) return;
      const room = places ? stop - start : Math.max(2, Math.round(((stop - start) * scaleOf(place)) / BUCKET));
      const kept = thin(values, start, stop - start, room);
      kept.forEach(([i, broken], n) => {
        const share = span ? (values[start + i] - bottom) / span : 0.5;
        const x = places ? places[start + i] : start + i + 0.5;
        const at = [xOf(place, x), mark.y + place.down + mark.h - 1 - share * (mark.h - 2)];
        if (broken) pen.moveTo(...at);
        else pen.lineTo(...at);
        if (broken && (kept[n + 1]?.[1] ?? true)) lone.push(at);
      });
    });
    finish(painter, { width: 1.5, round: true, ...mark });
    pen.fillStyle = color(mark.stroke);
    for (const at of lone) {
      pen.beginPath();
      pen.arc(...at, 1.5, 0, TURN);
      pen.fill();
    }
  },

  bars(painter, mark, place) {
    const { pen, params, column, color } = painter;
    const high = number(params, mark.high) || 1;
    const wide = Math.min(Math.max(0.86 * scaleOf(place), 0.5), mark.most ?? Infinity);
    const floors = mark.floors === undefined ? null : column(mark.floors);
    pen.globalAlpha = mark.opacity ?? 1;
    pen.fillStyle = color(mark.fill);
    column(mark.values).forEach((value, i) => {
      const [foot, top] = [floors ? floors[i] : 0, value].map((end) => mark.h * clamp(end / high, 0, 1));
      const tall = Math.max(top - foot, floors ? 1 : 0);
      if (tall > 0) pen.fillRect(xOf(place, i + 0.5) - wide / 2, mark.y + place.down + mark.h - foot - tall, wide, tall);
    });
    pen.globalAlpha = 1;
  },

  heat(painter, mark, place) {
    const { pen, params, column, color } = painter;
    const [rows, low, high] = [mark.rows, mark.low, mark.high].map((value) => number(params, value));
    const [x, x2, y] = boxOf(painter, place, mark);
    const values = column(mark.values);
    const columns = Math.floor(values.length / rows);
    // Whole pixels of the screen, so that neighbours neither overlap nor leave seams.
    const density = pen.getTransform().a;
    const edge = (from, size, share) => Math.round((from + size * share) * density) / density;
    pen.fillStyle = color(mark.fill);
    for (let i = 0; i < rows * columns; i++) {
      if (!Number.isFinite(values[i])) continue;
      const [row, at] = [Math.floor(i / columns), i % columns];
      const [left, top] = [edge(x, x2 - x, at / columns), edge(y, mark.h, row / rows)];
      const [wide, tall] = [edge(x, x2 - x, (at + 1) / columns) - left, edge(y, mark.h, (row + 1) / rows) - top];
      const shade = clamp(Math.floor((SHADES * (values[i] - low)) / (high - low || 1)), 0, SHADES - 1);
      pen.globalAlpha = FAINT + ((1 - FAINT) * shade) / (SHADES - 1);
      pen.fillRect(left, top, wide, tall);
    }
    pen.globalAlpha = 1;
  },

  glyphs(painter, mark, place) {
    for (const x of painter.column(mark.places)) DRAW.poly(painter, { ...mark, x }, place);
  },

  shares(painter, mark, place) {
    const { pen, column, color } = painter;
    const base = new Float64Array(bucketsOf(place));
    for (const [index, role] of mark.series) {
      const values = column(index);
      pen.fillStyle = color(role);
      stack(pen, base.map((_, i) => values[Math.floor(place.low + ((i + 0.5) * (place.high - place.low)) / base.length)] || 0), base, 0, mark, place);
    }
  },

  rules(painter, mark, place) {
    const { pen, column } = painter;
    const all = column(mark.places);
    const [first, last] = [search(all, place.low), search(all, place.high, true)];
    const dense = mark.dense && (last - first) * RULE_ROOM > place.right - place.left;
    const [top, bottom] = dense ? mark.dense : [mark.y, mark.y2];
    pen.beginPath();
    for (let i = first; i < last; i++) {
      const x = xOf(place, all[i]);
      pen.moveTo(x, top + place.down);
      pen.lineTo(x, bottom + place.down);
    }
    finish(painter, dense ? { ...mark, dash: [], width: 0.75 } : mark);
  },

  labels(painter, mark, place) {
    const { column } = painter;
    const { size = 11, shift = 0, fill, anchor, halo } = mark;
    const [starts, stops] = [column(mark.starts), column(mark.stops)];
    const values = mark.values === undefined ? null : column(mark.values);
    const last = search(starts, place.high);
    for (let i = search(stops, place.low, true); i < last; i++) {
      const text = values ? formatValue(values[i], "number") : mark.text ?? String(i + 1);
      const [start, stop] = [Math.max(xOf(place, starts[i]), place.left), Math.min(xOf(place, stops[i]), place.right)];
      // In the middle a text has a margin at both sides.
      if (textWidth(text, size) + (anchor ? 6 : shift) > stop - start) continue;
      DRAW.text(painter, { x: anchor ? (start + stop) / 2 : start + shift, y: mark.y, text, fill, size, anchor, halo }, pageOf(painter.width, place.down));
    }
  },

  axis(painter, mark, place) {
    for (const value of ticks(place.low, place.high, (place.right - place.left) / (mark.room ?? 90), mark.integer)) {
      const x = value + (mark.integer ? 0.5 : 0);
      const words = formatValue(value, mark.format);
      const half = textWidth(words, 10) / 2;
      const middle = clamp(xOf(place, x), place.left + half, place.right - half);
      DRAW.poly(painter, { points: [[x, mark.y - 4], [x, mark.y]] }, place);
      DRAW.text(painter, { x: middle, y: mark.y + 11, text: words, fill: "muted", size: 10, anchor: "middle" }, pageOf(painter.width, place.down));
    }
  },
};

function apart(pen, start, stop, { y, h: tall, gap = 0, least = 0.5 }, place) {
  const left = Math.max(xOf(place, start), place.left);
  const wide = Math.min(xOf(place, stop), place.right) - left;
  if (wide >= 0 && stop > start) pen.fillRect(left, y + place.down, Math.max(wide - (wide > 3 * gap ? gap : 0), least), tall);
}

/** Draw shares above `least` in columns of pixels, on top of `base`, which grows by them. */
function stack(pen, shares, base, least, { y, h: tall }, place) {
  const wide = (place.right - place.left) / base.length;
  shares.forEach((full, i) => {
    const share = clamp(full, 0, 1 - base[i]);
    base[i] += share;
    if (share > least) pen.fillRect(place.left + i * wide, y + place.down + tall * (1 - base[i]), wide, tall * share);
  });
}
