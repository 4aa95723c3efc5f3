// The scores that the page computes: reads { head, columns, constants } from stdin, writes for each constant the score of
// each action, node by node, as text, and its formula with numbers. test_tree_scores.py compares them with the library's.
import { readFileSync } from "node:fs";

import { scored, written } from "../../../widgets/rlnb_widgets/tree_explorer/formulas.js";
import { readTree } from "../../../widgets/rlnb_widgets/tree_explorer/store.js";

const { head, columns, constants } = JSON.parse(readFileSync(0, "utf8"));
const tree = readTree(head, new Uint8Array(Buffer.from(columns, "base64")));
const shown = (node) => (row) => [String(row.score), written(tree, node, row).numbers];
const of = (c) => Array.from({ length: tree.count }, (_, node) => scored(tree, node, c).map(shown(node)));
process.stdout.write(JSON.stringify(constants.map(of)));
