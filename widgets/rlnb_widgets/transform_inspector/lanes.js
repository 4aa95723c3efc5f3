// What is read off the payload, without a page: the rows of a table before and after a box, and words on a moment.

/** The values below and above a box, one row for each key: [key, kind, before, after]; null where nothing arrived. */
export function crossing(before, after) {
  if (!before && !after) return null;
  const old = new Map((before ?? []).filter((v) => v[1] !== "removed").map((v) => [v[0], v]));
  const now = new Map((after ?? []).map((v) => [v[0], v]));
  const rows = [...now.values()].map((v) => [v[0], v[1], old.get(v[0]) ?? null, v[1] === "removed" ? null : v]);
  // What did not arrive has no change, either.
  for (const v of old.values()) if (!now.has(v[0])) rows.push([v[0], after ? "removed" : "lost", v, null]);
  return rows;
}

/** Rows that tell of a change, and how many do not. */
export function split(rows) {
  const told = rows.filter((row) => row[1] !== "same");
  return { told, quiet: rows.filter((row) => row[1] === "same") };
}

/** The words for a box that is open, and the moment that is shown. */
export function spoken(model, box, moment) {
  const where = box < 0 ? `base env, ${model.env}` : `transform ${model.boxes[box].title} (${box + 1} of ${model.boxes.length})`;
  return moment ? `${where}, ${moment.label}` : where;
}
