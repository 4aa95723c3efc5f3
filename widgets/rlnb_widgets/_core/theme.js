// Colours by role, read from the style sheet that Python generates, and news of a change of theme.

/** Look colours up by role: palette(root)("accent"). Values are kept until the palette is made again. */
export function palette(root) {
  const known = new Map();
  const style = getComputedStyle(root);
  return (role) => {
    if (!known.has(role)) known.set(role, style.getPropertyValue(`--rlnb-${role}`).trim() || "#808080");
    return known.get(role);
  };
}

/** Whether the reader asked for less motion. */
export const reducedMotion = () => Boolean(globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches);

/** Call fn whenever the theme changes; returns a function that stops it. */
export function watchTheme(fn) {
  const observer = new MutationObserver(fn);
  const watched = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name"] };
  observer.observe(document.body, watched);
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fn);
  return () => { observer.disconnect(); media.removeEventListener("change", fn); };
}
