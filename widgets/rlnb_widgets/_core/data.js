// Plain functions on numbers and bytes; no page needed.

const KINDS = {
  f4: Float32Array, f8: Float64Array, i4: Int32Array, i2: Int16Array, i1: Int8Array,
  u4: Uint32Array, u2: Uint16Array, u1: Uint8Array,
};

/** The bytes of a trait (DataView, ArrayBuffer or typed array) as a Uint8Array. */
export function bytes(value) {
  if (!value) return new Uint8Array(0);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

/** The bytes that Python deflated, of which there may be none yet. */
export async function inflated(value) {
  const raw = bytes(value);
  if (!raw.length) return raw;
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return bytes(await new Response(stream).arrayBuffer());
}

/** The latest value of a trait that travels as deflated JSON (`AS_JSON` of packing.py). */
export async function arrived(model, name) {
  const sent = model.get(name);
  const value = JSON.parse(new TextDecoder().decode(await inflated(sent)));
  return sent === model.get(name) ? value : arrived(model, name); // another one has come meanwhile
}

/** A typed array ("f4", "i4", "u1", ...) over a copy of the bytes: their offset need not be a multiple of the item size. */
export function typed(value, kind, start = 0, count = undefined) {
  const Kind = KINDS[kind];
  if (!Kind) throw new Error(`unknown kind of number "${kind}"; known are ${Object.keys(KINDS).join(", ")}`);
  const raw = bytes(value);
  const end = count === undefined ? raw.byteLength : start + count * Kind.BYTES_PER_ELEMENT;
  const part = raw.slice(start, end);
  return new Kind(part.buffer, 0, Math.floor(part.byteLength / Kind.BYTES_PER_ELEMENT));
}

/** x moved into low..high. */
export function clamp(x, low, high) {
  return Math.min(Math.max(x, low), Math.max(low, high));
}

/** A number written shortly: `digits` significant ones, no trailing zeros. */
export function text(x, digits = 4) {
  if (typeof x !== "number") return String(x);
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return String(x === 0 ? 0 : x);
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) {
    return x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  return String(Number(x.toPrecision(digits)));
}

/** A count with its noun, as `plural` in text.py writes it. */
export const plural = (count, noun, nouns = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : nouns}`;

/** Call fn at once, then at most every `ms`; the last call is never lost. `flush()` runs a waiting call now. */
export function throttle(fn, ms) {
  let timer = null;
  let waiting = false;
  const tick = () => {
    timer = null;
    if (waiting) { waiting = false; timer = setTimeout(tick, ms); fn(); }
  };
  const call = () => {
    if (timer !== null) { waiting = true; return; }
    timer = setTimeout(tick, ms);
    fn();
  };
  call.flush = () => { if (waiting) { waiting = false; fn(); } };
  return call;
}
