// A canvas that follows the size of its host, the density of the screen and the theme, and the colours of the theme by role.

import { errorBox } from "./dom.js";

const TRIES = 30; // frames in which a host without a size is looked at again

/** Look colours up by role: palette(root)("accent"). Values are kept until the palette is made again. */
export function palette(root) {
  const known = new Map();
  const style = getComputedStyle(root);
  return (role) => {
    if (!known.has(role)) known.set(role, style.getPropertyValue(`--rlnb-${role}`).trim() || "#808080");
    return known.get(role);
  };
}

/** Call fn whenever the theme changes; returns a function that stops it. */
export function watchTheme(fn) {
  const observer = new MutationObserver(fn);
  const watched = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name"] };
  observer.observe(document.body, watched);
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fn);
  return () => { observer.disconnect(); media.removeEventListener("change", fn); };
}

/** The pen of an empty canvas, as wide and high in CSS pixels as it is shown, whatever the density of the screen. */
export function penOf(canvas, width, height) {
  const density = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const pen = canvas.getContext("2d");
  pen.setTransform(w / width, 0, 0, h / height, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/**
 * Put a canvas into `host` and paint it when something changed.
 *
 * paint(pen, { width, height, color }) works in CSS pixels; color("accent") looks a role up.
 * Returns { canvas, invalidate, destroy }; invalidate() paints once in the next frame, however often it is called.
 */
export function stage(host, paint) {
  const canvas = document.createElement("canvas");
  canvas.className = "rlnb-canvas";
  host.appendChild(canvas);
  let color = null;
  let frame = 0;
  let tries = 0;
  let gone = false;

  const draw = () => {
    frame = 0;
    const width = host.clientWidth;
    const height = host.clientHeight;
    if (gone) return;
    if (width === 0 || height === 0) {
      // In a hidden tab or before the host is attached there is nothing to paint on; the observer calls again. Between
      // two themes there is no layout for some frames, and the observer is not called.
      if ((tries -= 1) > 0) frame = requestAnimationFrame(draw);
      return;
    }
    color ??= palette(host);
    try {
      paint(penOf(canvas, width, height), { width, height, color });
    } catch (error) {
      destroy();
      host.append(errorBox(error));
    }
  };
  const invalidate = () => {
    tries = TRIES;
    if (!frame && !gone) frame = requestAnimationFrame(draw);
  };
  const observer = new ResizeObserver(invalidate);
  observer.observe(host);
  const unwatch = watchTheme(() => { color = null; invalidate(); });
  const destroy = () => {
    gone = true;
    cancelAnimationFrame(frame);
    observer.disconnect();
    unwatch();
    canvas.remove();
  };
  return { canvas, invalidate, destroy };
}
