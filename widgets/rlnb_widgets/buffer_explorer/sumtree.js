// The sum tree with two children a node: pure functions, no page needed.

/** The levels, the root first. An odd one at the end of a level is its own parent's only child. */
export function levelsOf(leaves) {
  const levels = [Float64Array.from(leaves)];
  while (levels[0].length > 1) {
    const below = levels[0];
    const above = new Float64Array(Math.ceil(below.length / 2));
    for (let i = 0; i < below.length; i++) above[i >> 1] += below[i];
    levels.unshift(above);
  }
  return levels;
}

/**
 * Go down with a mass, node by node: [{ depth, node, mass, left, goesRight }], the last one the leaf.
 *
 * `mass` is what is left of it on arrival; `left` the sum of the left child, and null at the leaf.
 */
export function descend(levels, mass) {
  const path = [];
  let node = 0;
  for (let depth = 0; depth < levels.length; depth++) {
    if (depth === levels.length - 1) { path.push({ depth, node, mass, left: null, goesRight: false }); break; }
    const below = levels[depth + 1];
    const left = below[2 * node];
    const right = 2 * node + 1 < below.length ? below[2 * node + 1] : 0;
    // Rounding must not lead to a node that holds nothing.
    const goesRight = right > 0 && (mass >= left || left === 0);
    path.push({ depth, node, mass, left, goesRight });
    if (goesRight) mass -= left;
    node = 2 * node + (goesRight ? 1 : 0);
  }
  return path;
}

/** The mass that leads into the middle of a leaf. */
export function massOf(leaves, leaf) {
  let before = 0;
  for (let i = 0; i < leaf; i++) before += leaves[i];
  return before + leaves[leaf] / 2;
}

/** What happens at a node, in words. nameOf(leaf) names what is drawn, `short` writes a number. */
export function stepWords(levels, step, nameOf, short) {
  const sum = short(levels[step.depth][step.node]);
  if (step.left === null) {
    const name = nameOf(step.node);
    return `${name} is drawn; ${name.startsWith("one of") ? "their priorities add up to" : "its priority is"} ${sum}`;
  }
  const where = step.depth === 0 ? "root" : `level ${step.depth}, node ${step.node}`;
  if (step.goesRight) return `${where}, sum ${sum}: ${short(step.mass)} is not below ${short(step.left)}, the sum on the left; go right with ${short(step.mass - step.left)}`;
  return `${where}, sum ${sum}: ${short(step.mass)} is below ${short(step.left)}, the sum on the left; go left`;
}
