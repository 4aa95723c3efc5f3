// A scene, such as a board, as SVG in the page.

const SPACE = "http://www.w3.org/2000/svg";

function node(tag, attributes) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** The SVG element of one shape; colours are variables that `paint` sets. */
export function attributesOf(shape) {
  const p = shape.points;
  const style = `fill:${shape.fill ? `var(--scene-${shape.fill})` : "none"}` +
    (shape.stroke ? `;stroke:var(--scene-${shape.stroke});stroke-width:${shape.stroke_width}` : "");
  if (shape.kind === "rect") return ["rect", { x: p[0], y: p[1], width: p[2], height: p[3], rx: p[4] ?? 0, style }];
  if (shape.kind === "circle") return ["circle", { cx: p[0], cy: p[1], r: p[2], style }];
  if (shape.kind === "line") return ["line", { x1: p[0], y1: p[1], x2: p[2], y2: p[3], style }];
  if (shape.kind === "polygon") return ["polygon", { points: p.join(" "), style }];
  return ["text", { x: p[0], y: p[1], "font-size": p[2], style }];
}

function draw(shapes) {
  return shapes.map((shape) => {
    const element = node(...attributesOf(shape));
    if (shape.kind === "text") element.textContent = shape.text;
    return element;
  });
}

/** The transform of a pose; null for a part that is hidden. */
export function transformOf(pose) {
  return pose === null ? null : `translate(${pose[0]} ${pose[1]}) rotate(${(pose[2] * 180) / Math.PI})`;
}

/** Build the drawing: { el, show(frame), paint(dark) }. */
export function sceneView(scene) {
  const el = node("svg", { viewBox: `0 0 ${scene.width} ${scene.height}`, class: "game-scene", "aria-hidden": "true" });
  el.append(...draw(scene.background));
  const parts = scene.parts.map((part) => {
    const group = node("g", { "data-part": part.name });
    group.append(...draw(part.shapes));
    el.append(group);
    return group;
  });
  return {
    el,
    show(frame) {
      parts.forEach((group, i) => {
        const transform = transformOf(frame[i]);
        group.toggleAttribute("hidden", transform === null);
        group.style.display = transform === null ? "none" : "";
        if (transform !== null) group.setAttribute("transform", transform);
      });
    },
    paint(dark) {
      for (const [role, pair] of Object.entries(scene.roles)) el.style.setProperty(`--scene-${role}`, pair[dark]);
    },
  };
}
