// The controls of a playhead, the same under every visualizer that has time: the bar of buttons, and a strip of marks over the
// steps, in which the playhead is dragged.

import { clamp } from "./data.js";
import { button, drag, h, icon, keyButton, select, tellSlider } from "./dom.js";
import { textWidth } from "./measures.js";
import { surface } from "./paint.js";
import { nextMark } from "./playhead.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];

/**
 * Build the bar of controls.
 *
 * marks() returns an object of kind -> sorted steps, at this moment; unit is what the playhead counts, and place(), if it
 * is given, says where it stands in other words. Where the arrow keys move in something else, `page(by)` moves by one: Page
 * Up and Page Down call it. The last parts of the bar are those for speed and range, `pace`, and those that jump to marks,
 * `jumps`, unless the caller puts them elsewhere. Returns { el, pace, jumps, keys, paint, destroy }; hand `keys` to `keyboard`
 * on the root.
 */
export function timelineBar(playhead, marks = () => ({}), unit = "step", place = null, page = null) {
  const keys = {};
  const act = (key, icon, label, onclick) => keyButton(keys, key, { icon, label, onclick });
  const [back, forward] = page ? ["PageUp", "PageDown"] : ["ArrowLeft", "ArrowRight"];
  const step = page ?? ((by) => playhead.step(by));
  const far = (key, icon, label, onclick) => (page ? button({ icon, label, title: label, onclick }) : act(key, icon, label, onclick));
  const play = keyButton(keys, " ", { icon: "play", label: "play", class: "rlnb-play", onclick: () => playhead.toggle() });
  keys[" "][0] = "play or pause";
  const where = h("output", { class: "rlnb-where" });
  const speed = select({
    options: SPEEDS.map((s) => [s, `${s}×`]), value: playhead.speed, label: "speed",
    onchange: (value) => playhead.channels.speed.set(Number(value)),
  });
  const loop = button({ icon: "loop", label: "loop", title: "start over at the end", onclick: () => playhead.channels.loop.set(!playhead.loop) });
  const kind = select({ options: [], value: "", label: "kind of mark to jump to", onchange: () => paint() });

  const jump = (direction) => {
    const found = nextMark(marks()[kind.value] ?? [], playhead.t, direction);
    if (found !== null) playhead.seek(found);
  };
  const limit = (key, text, label, what) => keyButton(keys, key, { text, label, onclick: () => playhead.limit(what) });
  const moves = h("span", { class: "rlnb-group" },
    far("Home", "first", "first step", () => playhead.seek(0)),
    far("PageUp", "back10", "back 10 steps", () => playhead.step(-10)),
    act(back, "back", "back 1 step", () => step(-1)),
    play,
    act(forward, "forward", "forward 1 step", () => step(1)),
    far("PageDown", "forward10", "forward 10 steps", () => playhead.step(10)),
    far("End", "last", "last step", () => playhead.seek(playhead.last)));
  const marked = () => !jumps.hidden;
  const before = act("p", "previous", "previous mark", () => jump(-1));
  const after = act("n", "next", "next mark", () => jump(1));
  for (const key of ["p", "n"]) keys[key].push(marked);
  const limits = [limit("[", "from here", "play from here", "start"), limit("]", "to here", "play up to here", "stop")];
  const whole = limit("\\", "×", "play all", "all");
  const jumps = h("span", { class: "rlnb-group", role: "group", "aria-label": "jump to a mark" }, before, kind, after);

  const pace = h("span", { class: "rlnb-group", role: "group", "aria-label": "pace and range" }, speed, loop, ...limits, whole);
  const el = h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "playback" }, moves, where, pace, jumps);

  let shownKinds = "";
  let shownPlaying = null;
  const paint = () => {
    const all = marks();
    const kinds = Object.keys(all);
    const labels = kinds.map((k) => `${k} (${all[k].length})`);
    if (labels.join("\n") !== shownKinds) {
      shownKinds = labels.join("\n");
      const chosen = kinds.includes(kind.value) ? kind.value : kinds.find((k) => all[k].length) ?? kinds[0] ?? "";
      kind.replaceChildren(...kinds.map((k, i) => h("option", { value: k }, labels[i])));
      kind.value = chosen;
      jumps.hidden = kinds.length === 0;
    }
    const list = all[kind.value] ?? [];
    before.disabled = nextMark(list, playhead.t, -1) === null;
    after.disabled = nextMark(list, playhead.t, 1) === null;
    const [at, last] = [playhead.t, playhead.last].map((n) => n.toLocaleString("en"));
    where.textContent = place?.() ?? `${unit} ${at} of ${last}`;
    // Room for the longest of these texts, so that nothing beside it moves.
    const widest = Math.max(...[where.textContent, `${unit} ${last} of ${last}`].map((text) => textWidth(text, 1)));
    where.style.setProperty("--rlnb-widest", `${(1.04 * widest).toFixed(2)}em`);
    if (shownPlaying !== playhead.playing) {
      shownPlaying = playhead.playing;
      const label = shownPlaying ? "pause" : "play";
      play.replaceChildren(icon(label));
      play.setAttribute("aria-label", label);
      play.title = `${label} (space)`;
    }
    whole.hidden = playhead.channels.range.value === null;
    loop.setAttribute("aria-pressed", String(playhead.loop));
    const speedText = String(playhead.speed);
    if (![...speed.options].some((o) => o.value === speedText)) speed.append(h("option", { value: speedText }, `${speedText}×`));
    speed.value = speedText;
  };
  const stop = playhead.subscribe(paint);
  jumps.hidden = true;
  paint();
  return { el, pace, jumps, keys, paint, destroy: stop };
}

/** The strip of a display list; marks() gives kind -> steps, the list's columns. Returns { el, show(list), update, destroy }. */
export function markStrip(list, playhead, marks) {
  const column = (kind) => marks()[kind] ?? [];
  const { el, at, invalidate, show, destroy } = surface(list, column, {
    params: () => ({ t: playhead.t, last: Math.max(playhead.last, 1), start: playhead.start, stop: playhead.stop, length: playhead.length }),
    class: "rlnb-strip", tabindex: 0, role: "slider", "aria-label": "playhead",
  });
  drag(el, (event) => playhead.seek(clamp(Math.round(at(event).value), 0, playhead.last)));
  const update = () => {
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    tellSlider(el, playhead.last, playhead.t, [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    invalidate();
  };
  return { el, show: (next) => show(next, column), update, destroy };
}
