// A game in the cell: the page shows the position and asks Python for every move.

import { button, h, keyButton, keyboard, reducedMotion, visualizer } from "../_core/core.js";
import { sceneView } from "../_core/scene.js";

const PAUSE = 380; // between your move and the answer
const PATIENCE = 5000;
const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

/** Where an arrow key leads from place `at`; the places are a grid in reading order, at whose edges it stays. */
export function neighbour(places, at, key) {
  const columns = places.filter(({ y }) => y === places[0].y).length;
  const to = at + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  const [from, next] = [places[at], places[to]];
  return next && (next.x === from.x || next.y === from.y) ? to : at;
}

export default visualizer("game", ({ model, root, own, listen }) => {
  const head = model.get("_head");
  const kernel = Boolean(model.widget_manager);
  let state = model.get("_state");
  let waiting = false;
  let patience = 0;
  let timer = 0;
  let thinking = false; // whether what the policy thought is shown
  let moved = 0; // when your last move was shown

  const ask = (what, action) => {
    if (!kernel || waiting) return;
    if (what === "act" && !state.legal[action]) {
      say(state.done ? `${state.status} Press N to start again.` : `Not a legal move: ${places.name(action)}.`);
      return;
    }
    waiting = true;
    root.setAttribute("data-waiting", "1");
    clearTimeout(patience);
    patience = setTimeout(() => { say("No answer yet: the kernel is busy, or gone."); waiting = false; }, PATIENCE);
    model.send({ do: what, action, asked: state.asked });
  };

  const headline = h("div", { class: "game-headline" });
  const status = h("p", { class: "game-status", role: "status", "aria-live": "polite" });
  const meaning = h("p", { class: "rlnb-note rlnb-small" }, "Bars: what the policy gave each action before its last move.");
  const problem = h("div", { class: "rlnb-error game-problem", role: "alert" });
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };
  const view = own(head.scene ? sceneView(head.scene) : null);
  const places = head.targets.length ? boardPlaces(head, ask) : actionButtons(head, ask);
  const onBoard = head.targets.length > 0;

  const keys = {};
  const tool = (key, text, label, onclick, title = label) => keyButton(keys, key, { text, label, onclick, title });
  const whole = head.two ? "game" : "episode";
  const tools = {
    new: tool("n", `New ${whole}`, `new ${whole}`, () => ask("new")),
    ...(head.two ? {
      take_back: tool("u", "Take back", "take back", () => ask("take_back"), "take your last move back"),
      swap: tool("s", "Swap sides", "swap sides", () => ask("swap"), "swap sides with the policy"),
    } : {}),
    let_policy: tool("p", "Policy moves for me", "let the policy move for me", () => ask("let_policy")),
    thoughts: tool("t", "Thoughts", "thoughts of the policy", () => { thinking = !thinking; paint(); }, "thoughts of the policy before its last move"),
  };

  const sizes = view && `--game-width:${head.scene.width}px;--game-ratio:${head.scene.width / head.scene.height}`;
  const shown = onBoard ? { role: "group" } : { tabindex: 0, role: "application", "aria-roledescription": "environment" };
  const stage = view && h("div", { class: "game-stage", style: sizes, ...shown }, view.el, onBoard ? places.el : null);
  const note = kernel ? null : h("p", { class: "rlnb-note" }, "To play, a Python kernel is needed: run the cell in a notebook.");
  root.append(...[headline, stage, onBoard ? null : places.el, status, meaning, problem,
    h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "game" }, ...Object.values(tools)), note,
    head.note ? h("p", { class: "rlnb-note" }, head.note) : null].filter(Boolean));

  if (onBoard) for (const key of ARROWS) keys[key] = ["go to a place; Enter plays there", () => places.move(key)];
  head.actions.forEach((action, i) => action.keys.forEach((key) => {
    if (!onBoard || !ARROWS.includes(key)) keys[key] = [onBoard ? "play at the place with this number" : action.name ?? `action ${i}`, () => { places.focusOn?.(i); ask("act", i); }];
  }));
  keyboard(root, keys, onBoard ? places : stage ?? places.first);

  // `after`: your move is shown already, since the policy was thinking.
  const showFrames = (after) => {
    clearTimeout(timer);
    if (!view || !state.frames.length) return;
    const still = reducedMotion();
    let i = still ? state.frames.length - 1 : after ? Math.min(1, state.frames.length - 1) : 0;
    const tick = () => {
      view.show(state.frames[i]);
      i += 1;
      if (i < state.frames.length) timer = setTimeout(tick, PAUSE);
    };
    const shown = performance.now() - moved;
    if (after && !still && shown < PAUSE) timer = setTimeout(tick, PAUSE - shown);
    else tick();
  };
  const paint = () => {
    headline.textContent = state.headline;
    root.setAttribute("aria-label", `Game: ${state.headline}`);
    stage?.setAttribute("aria-label", state.caption);
    say(state.status);
    problem.hidden = !state.problem;
    if (problem.textContent !== state.problem) problem.textContent = state.problem;
    places.update(state, thinking ? state.thought : null);
    meaning.hidden = !thinking || !state.thought;
    tools.thoughts.disabled = !state.thought;
    tools.thoughts.setAttribute("aria-pressed", String(thinking));
    tools.new.disabled = !kernel;
    for (const name of ["take_back", "swap", "let_policy"]) if (tools[name]) tools[name].disabled = !kernel || !state.can[name];
    Object.assign(root.dataset, { steps: state.steps, done: state.done });
    root.toggleAttribute("data-thinking", state.thinking);
    root.toggleAttribute("data-thoughts", thinking);
    if (!state.thinking) root.removeAttribute("data-waiting");
  };
  own(() => { clearTimeout(patience); clearTimeout(timer); });
  listen("change:_state", () => {
    const after = state.thinking;
    state = model.get("_state");
    waiting = state.thinking;
    clearTimeout(patience);
    paint();
    showFrames(after);
    if (state.thinking) moved = performance.now();
  });
  paint();
  if (view && state.frames.length) view.show(state.frames.at(-1));
});

function bar(thought, i) {
  if (!thought || !thought.words[i]) return [];
  return [h("span", { class: "game-thought" },
    h("i", { class: "game-share", style: `width:${Math.round(100 * thought.shares[i])}%` }),
    h("span", {}, thought.words[i]))];
}

/** The cells or columns of a board: buttons laid over the drawing, one of which is in the tab order. */
function boardPlaces(head, ask) {
  const { targets, scene } = head;
  let at = 0;
  const percent = (value, whole) => `${(100 * value) / whole}%`;
  const cells = targets.map((target, i) => h("button", {
    type: "button", class: target.height > 2 * target.width ? "game-place game-column" : "game-place", tabindex: -1, "data-action": target.action,
    style: `left:${percent(target.x, scene.width)};top:${percent(target.y, scene.height)};` +
      `width:${percent(target.width, scene.width)};height:${percent(target.height, scene.height)}`,
    onfocus: () => enter(i), onclick: () => { enter(i); ask("act", target.action); },
  }));
  const enter = (i) => {
    cells[at].setAttribute("tabindex", "-1");
    at = i;
    cells[at].setAttribute("tabindex", "0");
  };
  enter(0);
  const el = h("div", { class: "game-places", role: "group", "aria-label": "board" }, ...cells);
  const focusOn = (i, options) => { enter(i); cells[i].focus(options); };
  return {
    el,
    name: (action) => cells.find((_, i) => targets[i].action === action)?.getAttribute("aria-label") ?? `action ${action}`,
    focus: (options) => cells[at].focus(options),
    focusOn: (action) => focusOn(targets.findIndex((t) => t.action === action)),
    move: (key) => focusOn(neighbour(targets, at, key)),
    update(state, thought) {
      cells.forEach((cell, i) => {
        const { action } = targets[i];
        const words = state.places[i] ?? `action ${action}`;
        cell.setAttribute("aria-label", thought?.words[action] ? `${words}, policy ${thought.words[action]}` : words);
        cell.setAttribute("aria-disabled", String(!state.legal[action]));
        cell.replaceChildren(...bar(thought, action));
      });
    },
  };
}

/** A button for each action of an env that is played alone. */
function actionButtons(head, ask) {
  const buttons = head.actions.map((action, i) => button({
    label: action.hint ? `${action.name} (${action.hint})` : action.name, class: "game-action", "data-action": i, onclick: () => ask("act", i),
  }));
  return {
    el: h("div", { class: "rlnb-bar game-actions", role: "toolbar", "aria-label": "actions" }, ...buttons),
    first: buttons[0],
    name: (action) => head.actions[action].name,
    update(state, thought) {
      buttons.forEach((made, i) => {
        const { name, hint } = head.actions[i];
        made.replaceChildren(...[hint && hint !== name ? h("kbd", {}, hint) : "", name, ...bar(thought, i)].filter(Boolean));
        made.setAttribute("aria-disabled", String(!state.legal[i]));
      });
    },
  };
}
