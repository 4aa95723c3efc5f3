// Display lists as packing.py writes them.

/** The lists by name, each mark with the attributes of its look. */
export function unpacked({ looks, lists }) {
  const unpack = ([look, ...values]) => {
    const [common, ...names] = looks[look];
    const own = names.map((name, i) => [name, name === "marks" ? values[i].map(unpack) : values[i]]);
    return { ...common, ...Object.fromEntries(own) };
  };
  return Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, { ...list, marks: list.marks.map(unpack) }]));
}
