// The playhead: where in time a visualizer stands, and how it runs.

import { Channel } from "./channel.js";
import { clamp } from "./data.js";
import { reducedMotion } from "./frames.js";
import { search } from "./measures.js";

/**
 * Where the playhead is after `ms` milliseconds at `rate` steps a second, played from `start` up to `stop`.
 *
 * `carry` is the part of a step left over from before. Returns { t, carry, ended }.
 */
export function advance({ t, start, stop, rate, loop, carry }, ms) {
  const exact = carry + (ms * rate) / 1000;
  const whole = Math.floor(exact + 1e-9);
  const rest = Math.max(exact - whole, 0);
  if (t + whole < stop) return { t: t + whole, carry: rest, ended: false };
  if (loop && stop - start > 1) return { t: start + ((t + whole - start) % (stop - start)), carry: rest, ended: false };
  return { t: Math.max(stop - 1, 0), carry: 0, ended: true };
}

/** The first mark after t (direction 1) or the last before it (-1) in a sorted list, or null. */
export function nextMark(marks, t, direction) {
  return marks[direction > 0 ? search(marks, t, true) : search(marks, t) - 1] ?? null;
}

export class Playhead {
  constructor(model) {
    this.model = model;
    this.length = Math.max(model.get("length") ?? 1, 0);
    this.channels = {
      t: new Channel(model, "t", (v) => clamp(Math.round(Number(v) || 0), 0, this.length - 1)),
      playing: new Channel(model, "playing", Boolean),
      speed: new Channel(model, "speed", (v) => (Number(v) > 0 ? Number(v) : 1)),
      loop: new Channel(model, "loop", Boolean),
      range: new Channel(model, "range", (v) => this.part(v)),
    };
    this.listeners = new Set();
    this.ticks = new Set();
    this.carry = 0;
    this.frame = 0;
    this.channels.playing.subscribe((on, origin) => this.run(on, origin));
    for (const channel of Object.values(this.channels)) channel.subscribe(() => this.notify());
    this.onLength = () => {
      this.length = Math.max(model.get("length") ?? 1, 0);
      this.channels.t.fromModel(); // of one message the step may have come before the length that it needs
      this.channels.t.set(this.t);
      this.notify();
    };
    model.on("change:length", this.onLength);
    // Nothing starts to move by itself where the reader asked for less motion.
    if (this.playing && reducedMotion()) this.pause();
    else if (this.playing) this.run(true, "python");
  }

  get t() { return this.channels.t.value; }
  get playing() { return this.channels.playing.value; }
  get speed() { return this.channels.speed.value; }
  get loop() { return this.channels.loop.value; }
  get start() { return this.channels.range.value?.[0] ?? 0; }
  get stop() { return this.channels.range.value?.[1] ?? this.length; }
  get last() { return Math.max(this.length - 1, 0); }

  /** A range cut to what there is, or null for all. */
  part(range) {
    if (!Array.isArray(range)) return null;
    const [start, stop] = [Math.max(Math.round(range[0]), 0), Math.min(Math.round(range[1]), this.length)];
    return start < stop && (start > 0 || stop < this.length) ? [start, stop] : null;
  }

  /** Play only from here on, up to here, or all: "start", "stop" or "all". */
  limit(what) {
    if (what === "all") this.channels.range.set(null);
    else if (what === "start") this.channels.range.set([this.t, this.stop > this.t ? this.stop : this.length]);
    else this.channels.range.set([this.start <= this.t ? this.start : 0, this.t + 1]);
  }

  /** Move to step t; a move by hand stops the running. */
  seek(t) {
    this.pause();
    this.channels.t.set(t);
  }

  step(by) { this.seek(this.t + by); }

  play() {
    if (this.t >= this.stop - 1 || this.t < this.start) this.channels.t.set(this.start);
    this.channels.playing.set(true);
  }

  pause() { this.channels.playing.set(false); }
  toggle() { if (this.playing) this.pause(); else this.play(); }

  /** fn() is called on every change. Returns a function that stops it. */
  subscribe(fn) {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  /** fn() is called in each frame in which this playhead counts time. Returns a function that stops it. */
  everyFrame(fn) {
    this.ticks.add(fn);
    return () => this.ticks.delete(fn);
  }

  notify() { for (const fn of [...this.listeners]) fn(); }

  run(on, origin) {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    // Of linked visualizers only the one that was started counts time; the others follow it.
    if (!on || origin === "link") return;
    this.carry = 0;
    let before = performance.now();
    const tick = (now) => {
      const rate = (this.model.get("fps") || 30) * this.speed;
      const state = { t: this.t, start: this.start, stop: this.stop, rate, loop: this.loop, carry: this.carry };
      // A tab that slept must not leap ahead on waking.
      const next = advance(state, Math.min(Math.max(now - before, 0), 250));
      before = now;
      this.carry = next.carry;
      this.channels.t.set(next.t);
      for (const fn of this.ticks) fn();
      if (next.ended) this.pause();
      else this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  destroy() {
    // Followers must not wait for a driver that is gone.
    if (this.frame) this.pause();
    cancelAnimationFrame(this.frame);
    this.model.off("change:length", this.onLength);
    this.listeners.clear();
    for (const channel of Object.values(this.channels)) channel.destroy();
  }
}
