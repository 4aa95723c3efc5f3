// What Python answered about a value, as a small table.

import { h } from "../_core/core.js";

/** A line with a name and what is known of it. */
export const fact = (name, ...content) => h("div", { class: "spec-fact" }, h("span", { class: "rlnb-quiet" }, name), h("div", { class: "rlnb-what" }, ...content));

/** Make the block of one answer: { value, in, reasons, methods: [[name, ok, text]] }. */
export function answerBlock(answer) {
  const said = answer.in
    ? h("span", { class: "spec-yes" }, "✓ True")
    : h("span", { class: "spec-no" }, "✗ False");
  const reasons = answer.reasons.map((reason) => h("div", { class: "spec-reason" }, reason));
  const block = h("div", {}, fact("value", h("code", { class: "rlnb-code" }, answer.value)), fact("is_in", said, ...reasons));
  for (const [name, ok, text] of answer.methods) {
    // an error that only repeats the reason is not read twice
    const again = !ok && answer.reasons.some((reason) => text.endsWith(reason));
    const shown = again ? `${text.split(":")[0]}, for the same reason` : text;
    block.append(fact(name, h(ok ? "code" : "span", { class: ok ? "rlnb-code" : "spec-raised", title: text }, shown)));
  }
  return block;
}
