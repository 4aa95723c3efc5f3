// Where in the record one stands: how many simulations are in the picture, and the phase of the next one.

import { clamp } from "../_core/core.js";

const SLOW = 3; // simulations a second up to which the phases are shown while it plays

/** records() is the record, fps() how many are played a second at speed 1; onChange() is called after each change. */
export function moments({ playhead, records, fps, onChange }) {
  let phase = 0;
  let shownAt = -1;
  const count = () => records().count;
  const t = () => clamp(playhead.t, 0, count());

  function goTo(next, to) {
    phase = next >= count() ? 0 : to;
    shownAt = next;
    if (next !== playhead.t) playhead.seek(next);
    else playhead.pause();
    onChange();
  }
  const stop = playhead.subscribe(() => {
    if (playhead.t !== shownAt) phase = 0;
    shownAt = playhead.t;
    onChange();
  });
  // While it plays slowly, the part of a step that has passed shows as phases.
  const unwatch = playhead.everyFrame(() => {
    const now = fps() * playhead.speed <= SLOW && t() < count() ? Math.min(Math.floor(playhead.carry * 4), 3) : 0;
    if (now !== phase) { phase = now; onChange(); }
  });
  return {
    t,
    phase: () => phase,
    /** Show a phase of the simulation that is looked at. */
    toPhase(next) {
      const r = clamp(records().current(t(), phase), 0, count() - 1);
      goTo(next === 0 ? r + 1 : r, next);
    },
    /** To the end of the next simulation, or of the one before; in the middle of one that is where it began. */
    simulation(by) { goTo(clamp(by < 0 && phase ? t() : t() + by, 0, count()), 0); },
    /** One phase on, or back. */
    step(way) {
      const place = clamp(4 * t() + phase + way, 0, 4 * count());
      goTo(Math.floor(place / 4), place % 4);
    },
    /** The record is another one. */
    reset() { phase = 0; },
    destroy() { stop(); unwatch(); },
  };
}
