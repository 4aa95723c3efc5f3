// Search by a path of actions: "0 4 8", or by their names.

import { TERMINAL, actionName, edgeOf, hasFlag, isThere } from "./store.js";

/** Follow a path from the root, its words separated by spaces, commas or arrows: { node, message }, the message for what stops it. */
export function follow(tree, text) {
  const words = text.split(/[\s,→>]+/).filter(Boolean);
  let node = 0;
  for (const [i, word] of words.entries()) {
    const way = i === 0 ? "at the root" : `after ${words.slice(0, i).join(" ")}`;
    const action = actionOf(tree, word);
    const name = `Action ${actionName(tree, action)}`;
    const edge = edgeOf(tree, node, action);
    const child = edge < 0 ? -1 : tree.edgeChild[edge];
    if (action < 0) return { node, message: `There is no action “${word}”.` };
    if (edge < 0) return { node, message: hasFlag(tree, node, TERMINAL) ? `The episode ends ${way}.` : `${name} is not legal ${way}, or was left out.` };
    if (child < 0) return { node, message: `${name} was never tried ${way}.` };
    if (!isThere(tree, child)) return { node, message: `${name} is tried ${way} only by a later simulation.` };
    node = child;
  }
  return { node, message: "" };
}

/** The action with a name or a number, or -1. */
export function actionOf(tree, word) {
  const names = tree.head.actionNames ?? [];
  const named = names.findIndex((one) => one.toLowerCase() === word.toLowerCase());
  if (named >= 0) return named;
  const number = /^\d+$/.test(word) ? Number(word) : -1;
  return number < tree.head.actions ? number : -1;
}
