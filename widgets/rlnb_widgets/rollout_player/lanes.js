// What each agent does, one below the other: its acting and its own ends and resets, or the category that it chose.

/** The lanes of a strip: [{ e, k, column, y, h }], for each environment drawn all agents. */
export function lanesOf(strip, row, envs) {
  const h = row.h / (strip.columns.length * envs.length);
  return envs.flatMap((e, lane) => strip.columns.map((column, k) => (
    { e, k, column, y: row.y + (lane * strip.columns.length + k) * h, h: h - 1 })));
}

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

/** Paint the lanes of a group: a bar while an agent acts, its end as a line, its own reset as a sign. */
export function paintLanes(context, scene, strip, row, { edge, stretches, looks }) {
  const { head, columns, envs, color } = scene;
  const waits = head.lanes.indexOf("waits");
  for (const { e, k, column, y, h } of lanesOf(strip, row, envs)) {
    const values = columns[column];
    const offset = e * head.steps;
    for (const { start, stop } of stretches(e)) {
      context.fillStyle = color("line");
      context.fillRect(edge(start), y + h / 2, Math.max(edge(stop) - edge(start) - 2, 0.5), 1);
      for (const [a, b] of acting(values, offset, start, stop, waits, head.restart)) {
        context.globalAlpha = 0.45;
        context.fillStyle = color(strip.roles[k]);
        context.fillRect(edge(a), y, Math.max(edge(b) - edge(a) - (b === stop ? 2 : 0), 1), h);
        context.globalAlpha = 1;
        const look = looks[head.lanes[values[offset + b - 1] % head.restart]];
        if (look) mark(context, Math.round(edge(b)) - 1, y, h, color(look[0]), look[1]);
        if (values[offset + a] >= head.restart) sign(context, head.resetSigns.reset, edge(a) + 1, y + h / 2, color("ink"));
      }
    }
  }
}

function mark(context, x, y, h, colour, dash) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.setLineDash(dash.length ? [2, 2] : []);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x, y + h);
  context.stroke();
  context.setLineDash([]);
}

/** A sign of a reset, with its left edge at x; returns its width. */
export function sign(context, words, x, y, colour) {
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colour;
  context.fillText(words, x, y);
  return context.measureText(words).width;
}

/** Paint a band for each agent; where several steps share a pixel, the first of them is shown. */
export function paintBands(context, scene, strip, row, { edge, stretches }) {
  const { head, columns, view, left, right, envs, color } = scene;
  const each = (view.to - view.from) / Math.max(right - left, 1);
  for (const { e, column, y, h } of lanesOf(strip, row, envs)) {
    const values = columns[column];
    const offset = e * head.steps;
    for (const { start, stop } of stretches(e)) {
      const by = Math.max(1, Math.floor(each));
      for (let t = start; t < stop; t += by) {
        const value = values[offset + t];
        if (value < 0) continue;
        const [a, b] = [edge(t), edge(Math.min(t + by, stop))];
        context.fillStyle = color(`c${value % 8}`);
        context.fillRect(a, y, Math.max(b - a - (each < 0.2 ? 1 : 0), 0.5), h);
      }
    }
  }
}

/** The numbers of the agents before their lanes, right-aligned at x. */
export function paintNames(context, strip, row, x, color) {
  const h = row.h / strip.names.length;
  context.font = "9.5px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  strip.names.forEach((name, k) => {
    context.fillStyle = color(strip.roles[k]);
    context.fillText(name, x, row.y + (k + 0.5) * h);
  });
}
