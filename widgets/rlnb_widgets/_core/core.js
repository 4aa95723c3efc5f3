// Everything a visualizer's own module may import, in one place.
export { bytes, clamp, text, throttle, typed } from "./data.js";
export { stage } from "./canvas.js";
export { Channel } from "./channel.js";
export { button, drag, errorBox, factList, guarded, h, icon, keyboard, keysOf, noteList, select, tellSlider } from "./dom.js";
export { legend } from "./legend.js";
export { BUCKET, cutText, duration, formatValue, roundStep, search, textWidth, thin, ticks } from "./measures.js";
export { columnsOf, hitAt, layered, paint, paintOnce, surface } from "./paint.js";
export { Playhead, advance, nextMark } from "./playhead.js";
export { tabs } from "./tabs.js";
export { palette, reducedMotion, watchTheme } from "./theme.js";
export { timelineBar } from "./timeline.js";
export { visualizer } from "./widget.js";
