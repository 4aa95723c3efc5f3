// Lanes of a domain without a page: the columns and parameters of their pictures.

const MOST_CELLS = 24; // as many as Python draws

/** The columns of the pictures of a row by name: bars of its samples, and where the tried values are, legal or not. */
export function columnsOf(lanes, samples = null, dots = null) {
  const found = {};
  lanes.forEach((lane, i) => {
    const [unit, shift] = lane.kind === "line" ? [1, 0] : [Math.min(lane.n, MOST_CELLS) / lane.n, 0.5];
    const placesOf = (legal) => (dots?.[i] ?? []).filter((dot) => dot[1] === legal)
      .map(([place]) => (lane.kind === "line" || lane.kind === "choices" ? place + shift : Math.floor(place * unit) + shift));
    Object.assign(found, { [`levels${i}`]: samples?.levels?.[i] ?? [], [`legal${i}`]: placesOf(true), [`illegal${i}`]: placesOf(false) });
  });
  return (name) => found[name];
}

/** The parameters of the large picture: the numbers at the ends of its lines. */
export function paramsOf(lanes) {
  return Object.fromEntries(lanes.flatMap(({ view }, i) => (view ? [[`low${i}`, view[0]], [`high${i}`, view[1]]] : [])));
}
