// Search by a path of actions: "0 4 8", or by their names.

import { actionName, edgeOf } from "./store.js";

/**
 * Follow a path from the root. Words are separated by spaces, commas or arrows.
 *
 * Returns { node, rest, message }: how far it leads, the words that are left, and a message about them.
 */
export function follow(tree, text) {
  const words = text.split(/[\s,→>]+/).filter(Boolean);
  let node = 0;
  for (const [i, word] of words.entries()) {
    const action = actionOf(tree, word);
    const edge = action < 0 ? -1 : edgeOf(tree, node, action);
    const child = edge < 0 ? -1 : tree.edgeChild[edge];
    const way = i === 0 ? "at the root" : `after ${words.slice(0, i).join(" ")}`;
    if (action < 0) return stop(node, words.slice(i), `There is no action “${word}”.`);
    if (edge < 0) return stop(node, words.slice(i), tree.flags[node] & 1 ? `The episode ends ${way}.` : `${name(tree, action)} is not legal ${way}, or was left out.`);
    if (child < 0) return stop(node, words.slice(i), `${name(tree, action)} was never tried ${way}.`);
    if (tree.addedAt[child] > tree.now) return stop(node, words.slice(i), `${name(tree, action)} is tried ${way} only by a later simulation.`);
    node = child;
  }
  return { node, rest: [], message: "" };
}

const stop = (node, rest, message) => ({ node, rest, message });
const name = (tree, action) => `Action ${actionName(tree, action)}`;

/** The action with a name or a number, or -1. */
export function actionOf(tree, word) {
  const names = tree.head.actionNames ?? [];
  const named = names.findIndex((one) => one.toLowerCase() === word.toLowerCase());
  if (named >= 0) return named;
  const number = /^\d+$/.test(word) ? Number(word) : -1;
  return number < tree.head.actions ? number : -1;
}
