// The places on a board that can be chosen.

/** Where an arrow key leads from target `at`: the nearest one in that direction, or `at` itself. */
export function neighbour(targets, at, key) {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const centre = (t) => [t.x + t.width / 2, t.y + t.height / 2];
  const [x, y] = centre(targets[at]);
  let best = at;
  let least = Infinity;
  targets.forEach((target, i) => {
    const [dx, dy] = [centre(target)[0] - x, centre(target)[1] - y];
    const along = dx * way[0] + dy * way[1];
    const aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
    if (along > 0.5 && along + 4 * aside < least) { least = along + 4 * aside; best = i; }
  });
  return best;
}
