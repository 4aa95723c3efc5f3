// What is done in the next frame of the screen, and what moves from frame to frame.

import { clamp } from "./data.js";

/** A function that calls fn once in the next frame, however often it is called; its destroy() drops a waiting call. */
export function framed(fn) {
  let frame = 0;
  const later = () => { frame ||= requestAnimationFrame(() => { frame = 0; fn(); }); };
  later.destroy = () => cancelAnimationFrame(frame);
  return later;
}

/** Whether the reader asked for less motion. */
export const reducedMotion = () => Boolean(globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches);

/** Something that moves for `ms`: start() calls step(share) in each frame, share from 0 to 1; destroy() stops it. */
export function motion(ms, step) {
  let frame = 0;
  const stop = () => cancelAnimationFrame(frame);
  const start = () => {
    stop();
    const begun = performance.now();
    const tick = (now) => {
      const share = clamp((now - begun) / ms, 0, 1);
      frame = share < 1 ? requestAnimationFrame(tick) : 0;
      step(share);
    };
    frame = requestAnimationFrame(tick);
  };
  return { start, stop, destroy: stop };
}
