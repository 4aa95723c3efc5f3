// The controls of a playhead, the same under every visualizer that has time.

import { button, h, icon, select } from "./dom.js";
import { nextMark } from "./playhead.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];

/** The keys of a playhead, for `keyboard`. `jump(direction)` goes to a neighbouring mark. */
export function timelineKeys(playhead, jump) {
  return {
    " ": ["play or pause", () => playhead.toggle()],
    ArrowRight: ["one step forward", () => playhead.step(1)],
    ArrowLeft: ["one step back", () => playhead.step(-1)],
    PageDown: ["ten steps forward", () => playhead.step(10)],
    PageUp: ["ten steps back", () => playhead.step(-10)],
    Home: ["first step", () => playhead.seek(0)],
    End: ["last step", () => playhead.seek(playhead.last)],
    n: ["next mark", () => jump(1)],
    p: ["previous mark", () => jump(-1)],
    "[": ["play only from here on", () => playhead.limit("start")],
    "]": ["play only up to here", () => playhead.limit("stop")],
    "\\": ["play all", () => playhead.limit("all")],
  };
}

/**
 * Build the bar of controls.
 *
 * marks() returns an object of kind -> sorted steps, at this moment; unit is what the playhead counts, and place(), if it
 * is given, says where it stands in other words. The buttons that jump to marks are part of the bar; with `jumpsApart`
 * the caller puts them elsewhere. Returns { el, jumps, keys, paint, destroy }; hand `keys` to `keyboard` on the root.
 */
export function timelineBar(playhead, marks = () => ({}), unit = "step", place = null, { jumpsApart = false } = {}) {
  const act = (name, label, key, onclick) => button({ icon: name, label, title: `${label} (${key})`, onclick });
  const play = act("play", "play", "space", () => playhead.toggle());
  play.classList.add("rlnb-play");
  const where = h("output", { class: "rlnb-where" });
  const speed = select({
    options: SPEEDS.map((s) => [s, `${s}×`]), value: playhead.speed, label: "speed",
    onchange: (value) => playhead.setSpeed(Number(value)),
  });
  const loop = button({ icon: "loop", label: "loop", title: "start over at the end", onclick: () => playhead.setLoop(!playhead.loop) });
  const kind = select({ options: [], value: "", label: "kind of mark to jump to", onchange: () => paint() });

  const limit = (words, label, key, what) =>
    button({ text: words, label, title: `${label} (${key})`, onclick: () => playhead.limit(what) });
  const whole = limit("×", "play all", "\\", "all");

  const jump = (direction) => {
    const found = nextMark(marks()[kind.value] ?? [], playhead.t, direction);
    if (found !== null) playhead.seek(found);
  };
  const before = act("previous", "previous mark", "p", () => jump(-1));
  const after = act("next", "next mark", "n", () => jump(1));
  const jumps = h("span", { class: "rlnb-group", role: "group", "aria-label": "jump to a mark" }, before, kind, after);

  const el = h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "playback" },
    h("span", { class: "rlnb-group" },
      act("first", "first step", "Home", () => playhead.seek(0)),
      act("back10", "back 10 steps", "Page Up", () => playhead.step(-10)),
      act("back", "back 1 step", "←", () => playhead.step(-1)),
      play,
      act("forward", "forward 1 step", "→", () => playhead.step(1)),
      act("forward10", "forward 10 steps", "Page Down", () => playhead.step(10)),
      act("last", "last step", "End", () => playhead.seek(playhead.last))),
    where,
    h("span", { class: "rlnb-group" }, speed, loop,
      limit("from here", "play from here", "[", "start"), limit("to here", "play up to here", "]", "stop"), whole),
    jumpsApart ? null : jumps);

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
    where.textContent = place?.() ?? `${unit} ${playhead.t.toLocaleString("en")} of ${playhead.last.toLocaleString("en")}`;
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
  return { el, jumps, keys: timelineKeys(playhead, jump), paint, destroy: stop };
}
