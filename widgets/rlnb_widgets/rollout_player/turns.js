// Games in turns: who is to move and who has won, in words.

/**
 * Who is to move at step t, and with `after` what the step led to; `short` for few letters. "" where it is no game in
 * turns.
 */
export function turnWords(head, columns, e, t, after = false, short = false) {
  if (!head.turns) return "";
  const row = e * head.steps + t;
  const name = (number) => (short ? head.turns.short : head.turns.players)[number] ?? `player ${number}`;
  if (!after) return `${name(columns[head.turns.turn][row])} to move`;
  if (head.kinds[columns[head.code][row]] === "terminated") {
    const rewards = head.turns.rewards.map((c) => columns[c][row]);
    const best = rewards.indexOf(Math.max(...rewards));
    return rewards[best] > 0 ? `${name(best)} has won` : "a draw";
  }
  return head.turns.after === null ? "" : `${name(columns[head.turns.after][row])} to move`;
}
