// The marks that the page makes of trees: reads { head, columns, places, column, rows, width } from stdin, writes
// { nodes, lines, icicle, open }. test_tree_marks.py compares them with those of the static view.
import { readFileSync } from "node:fs";

import { icicleMarks, itemMarks, lineMarks } from "../../../widgets/rlnb_widgets/tree_explorer/scene.js";
import { firstFolds, layOut } from "../../../widgets/rlnb_widgets/tree_explorer/layout.js";
import { looked, opened } from "../../../widgets/rlnb_widgets/tree_explorer/look.js";

const { head, columns, places, column, rows, width } = JSON.parse(readFileSync(0, "utf8"));
const model = { get: (name) => ({ _head: head, _columns: new Uint8Array(Buffer.from(columns, "base64")) })[name] };
const count = head.records?.count ?? 0;
const seen = looked(opened(model), { t: count, phase: 0, selection: 0, c: 1, boards: null, following: false, filter: { least: 0, deepest: Infinity } });
// The static view has no playhead and no selection.
const still = { ...seen, lit: { nodes: [], edges: new Set() }, changed: new Map(), selected: -1, active: null };

const { tree } = seen;
const drawn = new Map(Object.entries(places).map(([node, place]) => [Number(node), place]));
const items = new Map([...drawn.keys()].map((node) => [node, { id: node, kind: "node", node, edge: tree.edge[node], children: [], folded: false }]));
const lines = [];
for (const node of drawn.keys()) {
  for (let edge = tree.edgeStart[node]; edge < tree.edgeStart[node + 1]; edge++) {
    const child = tree.edgeChild[edge];
    if (!drawn.has(child)) continue;
    const own = tree.edge[child] === edge;
    if (own) items.get(node).children.push(items.get(child));
    lines.push(...lineMarks(edge, drawn.get(node), drawn.get(child), still, own ? null : [0]));
  }
}
for (const [node, item] of items) item.parent = items.get(tree.parent[node]) ?? null;
const state = { ...still, isShown: () => true, stubCount: () => 0, layout: { column, at: items } };
const nodes = Object.fromEntries([...drawn].map(([node, place]) => [node, itemMarks(items.get(node), place, state).marks]));
const icicle = icicleMarks(still, { zoomed: 0, over: -1, tall: rows.tall, rows: rows.count, width });
const open = [...layOut(tree, firstFolds(tree)).at.keys()];
process.stdout.write(JSON.stringify({ nodes, lines, icicle, open }));
