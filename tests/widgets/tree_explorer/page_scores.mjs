// The scores that the page computes: reads { head, columns, constants } from stdin, writes for each constant the scores of
// all actions, node by node, as text. test_tree_scores.py compares them with those of the library.
import { readFileSync } from "node:fs";

import { scored } from "../../../widgets/rlnb_widgets/tree_explorer/formulas.js";
import { readTree } from "../../../widgets/rlnb_widgets/tree_explorer/store.js";

const { head, columns, constants } = JSON.parse(readFileSync(0, "utf8"));
const tree = readTree(head, new Uint8Array(Buffer.from(columns, "base64")));
const of = (c) => Array.from({ length: tree.count }, (_, node) => scored(tree, node, c).map((row) => String(row.score)));
process.stdout.write(JSON.stringify(constants.map(of)));
