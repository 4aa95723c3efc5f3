// The shared JavaScript that needs no page: numbers, the playhead, channels and links.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { deflateSync } from "node:zlib";

import { Channel } from "../../../widgets/rlnb_widgets/_core/channel.js";
import { arrived, bytes, clamp, text, throttle, typed } from "../../../widgets/rlnb_widgets/_core/data.js";
import { framed, motion } from "../../../widgets/rlnb_widgets/_core/frames.js";
import { hitAt } from "../../../widgets/rlnb_widgets/_core/paint.js";
import { Playhead, advance, nextMark } from "../../../widgets/rlnb_widgets/_core/playhead.js";

class Model {
  constructor(values) { this.values = { _links: [], ...values }; this.heard = new Map(); this.sent = []; this.waiting = {}; }
  get(name) { return this.values[name]; }
  set(name, value) { if (this.values[name] === value) return; this.values[name] = value; this.waiting[name] = value; this.emit(name); }
  emit(name) { for (const fn of [...(this.heard.get(`change:${name}`) ?? [])]) fn(); }
  on(event, fn) { if (!this.heard.has(event)) this.heard.set(event, new Set()); this.heard.get(event).add(fn); }
  off(event, fn) { this.heard.get(event)?.delete(fn); }
  save_changes() { this.sent.push(this.waiting); this.waiting = {}; }
  python(name, value) { this.values[name] = value; this.emit(name); }
}
const timed = (values) => new Model({ t: 0, length: 100, fps: 10, speed: 1, loop: false, playing: false, ...values });

// Time passes only where a test says so: a busy machine must not change what happens.
let now = 0;
let timers = new Map();
let made = 0;
globalThis.performance.now = () => now;
globalThis.setTimeout = (fn, ms = 0) => { timers.set(++made, [now + ms, fn]); return made; };
globalThis.clearTimeout = (id) => timers.delete(id);
const pass = (ms) => {
  for (const end = now + ms; now < end;) {
    now++;
    for (const [id, [at, fn]] of [...timers]) if (at <= now && timers.delete(id)) fn();
  }
};

let frames = [];
beforeEach(() => {
  timers = new Map();
  frames = [];
  globalThis.requestAnimationFrame = (fn) => frames.push(fn);
  globalThis.cancelAnimationFrame = (id) => { if (id) frames[id - 1] = null; };
  globalThis.__rlnbLinks = new EventTarget();
});
const runFrame = (ms) => {
  pass(ms);
  const waiting = frames.map((fn, i) => [fn, i]).filter(([fn]) => fn);
  for (const [fn, i] of waiting) { frames[i] = null; fn(now); }
  return waiting.length;
};

test("typed copies bytes at any offset", () => {
  const raw = new Uint8Array(9);
  new DataView(raw.buffer).setFloat32(1, 1.5, true);
  assert.deepEqual([...typed(new DataView(raw.buffer, 1, 8), "f4")], [1.5, 0]);
  assert.deepEqual([...typed(raw, "i1", 0, 3)], [0, 0, 0]);
  assert.equal(bytes(null).length, 0);
  assert.throws(() => typed(raw, "f2"), /unknown kind of number "f2"; known are f4/);
});

test("numbers are written as Python writes them", () => {
  const pairs = [[0, "0"], [-0, "0"], [0.123456, "0.1235"], [1234567, "1.235e6"], [NaN, "nan"], [-Infinity, "-inf"], [0.00001, "1e-5"], [12, "12"], [2.50, "2.5"], ["x", "x"]];
  for (const [value, shown] of pairs) assert.equal(text(value), shown);
});

test("of two values that come one after the other the later one arrives, whoever asks", async () => {
  const sent = (value) => deflateSync(JSON.stringify(value));
  let state = sent({ rows: Array.from({ length: 2000 }, (_, i) => i) });
  const model = { get: () => state };
  const first = arrived(model, "payload");
  state = sent({ rows: [1] });
  assert.deepEqual(await Promise.all([first, arrived(model, "payload")]), [{ rows: [1] }, { rows: [1] }]);
});

test("clamp keeps to an empty range", () => assert.equal(clamp(5, 0, -1), 0));

test("throttle calls at once, then rarely, and never loses the last call", () => {
  let calls = 0;
  const fn = throttle(() => { calls++; }, 20);
  for (let i = 0; i < 50; i++) fn();
  assert.equal(calls, 1);
  pass(19);
  assert.equal(calls, 1);
  pass(1);
  assert.equal(calls, 2);
  pass(100);
  assert.equal(calls, 2);
});

test("advance keeps the part of a step left over", () => {
  let state = { t: 0, start: 0, stop: 100, rate: 30, loop: false, carry: 0 };
  for (let i = 0; i < 60; i++) state = { ...state, ...advance(state, 1000 / 60) };
  assert.equal(state.t, 30);
});

test("advance stops at the end, or starts over", () => {
  const state = { t: 8, start: 0, stop: 10, rate: 10, carry: 0 };
  assert.deepEqual(advance({ ...state, loop: false }, 500), { t: 9, carry: 0, ended: true });
  const again = advance({ ...state, loop: true }, 500);
  assert.equal(again.t, 3);
  assert.equal(again.ended, false);
  assert.equal(advance({ ...state, start: 6, loop: true }, 500).t, 9);
  assert.equal(advance({ ...state, t: 0, stop: 1, loop: true }, 500).ended, true);
});

test("nextMark finds neighbours on both sides", () => {
  const marks = [2, 5, 9];
  assert.equal(nextMark(marks, 5, 1), 9);
  assert.equal(nextMark(marks, 5, -1), 2);
  assert.equal(nextMark(marks, 9, 1), null);
  assert.equal(nextMark(marks, 2, -1), null);
  assert.equal(nextMark([], 2, 1), null);
  assert.equal(nextMark(marks, 3, -1), 2);
});

test("a drag tells Python at most 25 times a second, and ends on the right step", () => {
  const model = timed();
  const head = new Playhead(model);
  for (let i = 1; i <= 60; i++) { head.seek(i); pass(2); }
  // At once, after 40, 80 and 120 ms.
  assert.deepEqual(model.sent.map((m) => m.t), [1, 20, 40, 60]);
  pass(200);
  assert.equal(model.sent.length, 4);
  head.seek(7);
  assert.equal(model.get("t"), 7);
});

test("playing runs by the clock and stops at the end", () => {
  const head = new Playhead(timed({ length: 5, fps: 10 }));
  head.play();
  runFrame(110);
  assert.equal(head.t, 1);
  for (let i = 0; i < 10; i++) runFrame(200);
  assert.equal(head.t, 4);
  assert.equal(head.playing, false);
  head.play();
  assert.equal(head.t, 0);
});

test("a move by hand stops the playing; steps stay in range", () => {
  const head = new Playhead(timed());
  head.play();
  head.step(-5);
  assert.equal(head.playing, false);
  assert.equal(head.t, 0);
  head.seek(1e9);
  assert.equal(head.t, 99);
});

test("a range limits what is played, not where one can go", () => {
  const model = timed({ length: 50, range: [10, 20] });
  const head = new Playhead(model);
  head.seek(40);
  assert.equal(head.t, 40);
  head.play();
  assert.equal(head.t, 10);
  for (let i = 0; i < 20; i++) runFrame(200);
  assert.deepEqual([head.t, head.playing], [19, false]);
  head.seek(30);
  head.limit("start");
  assert.deepEqual([head.start, head.stop], [30, 50]);
  head.seek(35);
  head.limit("stop");
  assert.deepEqual(head.channels.range.value, [30, 36]);
  head.limit("all");
  assert.equal(head.channels.range.value, null);
  pass(40); // Python's word counts once ours has been sent.
  model.python("range", [45, 99]);
  assert.deepEqual([head.start, head.stop], [45, 50]);
});

test("Python moves the playhead", () => {
  const model = timed();
  const head = new Playhead(model);
  let heard = 0;
  head.subscribe(() => heard++);
  model.python("t", 42);
  assert.equal(head.t, 42);
  assert.equal(heard, 1);
  model.python("length", 10);
  assert.equal(head.t, 9);
});

test("a step that Python sends together with a greater length arrives, whichever comes first", () => {
  for (const order of [["t", "length"], ["length", "t"]]) {
    const model = timed({ length: 10, t: 9 });
    const head = new Playhead(model);
    for (const name of order) model.python(name, { t: 10, length: 11 }[name]);
    assert.equal(head.t, 10, order.join());
  }
});

test("linked playheads move in the page; only the one that was moved tells Python", () => {
  const links = [["t", "g"], ["playing", "g"]];
  const [one, two] = [timed({ _links: links }), timed({ _links: links, length: 10 })];
  const [a, b] = [new Playhead(one), new Playhead(two)];
  a.seek(50);
  assert.deepEqual([a.t, b.t], [50, 9]);
  pass(60);
  assert.deepEqual(one.sent, [{ t: 50 }]);
  assert.deepEqual(two.sent, []);
  two.python("t", 3); // What Python's own link says late about a step long past.
  assert.deepEqual([a.t, b.t], [50, 9]);
  pass(339);
  two.python("t", 3);
  assert.deepEqual([a.t, b.t], [50, 9]);
  pass(1);
  two.python("t", 4);
  assert.deepEqual([a.t, b.t], [4, 4]);
});

test("of linked playheads one counts time, and each can stop both", () => {
  const links = [["t", "g"], ["playing", "g"]];
  const [a, b] = [new Playhead(timed({ _links: links })), new Playhead(timed({ _links: links }))];
  a.play();
  assert.equal(b.playing, true);
  assert.equal(runFrame(100), 1);
  assert.equal(a.t, b.t);
  b.pause();
  assert.equal(a.playing, false);
  a.play();
  a.destroy();
  assert.equal(b.playing, false);
});

test("a channel joins and leaves groups as its links change", () => {
  const [one, two] = [new Model({ x: 0 }), new Model({ x: 0 })];
  const [a, b] = [new Channel(one, "x"), new Channel(two, "x")];
  a.set(1);
  assert.equal(b.value, 0);
  for (const model of [one, two]) model.python("_links", [["x", "g"]]);
  a.set(2);
  assert.equal(b.value, 2);
  two.python("_links", []);
  a.set(3);
  assert.equal(b.value, 2);
});

test("a channel that ended follows no link", () => {
  const links = [["x", "g"]];
  const [a, b] = [new Channel(new Model({ x: 0, _links: links }), "x"), new Channel(new Model({ x: 0, _links: links }), "x")];
  let heard = 0;
  b.subscribe(() => heard++);
  a.set(1);
  b.destroy();
  a.set(2);
  assert.deepEqual([a.value, b.value, heard], [2, 1, 1]);
});

test("channels of different names meet under the name that the link says", () => {
  const [cell, time] = [new Model({ selection: 0 }), new Model({ t: 0 })];
  const [a, b] = [new Channel(cell, "selection"), new Channel(time, "t")];
  cell.python("_links", [["selection", "g", "t"]]);
  time.python("_links", [["t", "g"]]);
  a.set(4);
  assert.equal(b.value, 4);
  b.set(2);
  assert.equal(a.value, 2);
});

test("two widgets of one page, each with the modules for itself, do not give the same id", async () => {
  const copies = await Promise.all(["a", "b"].map((name) => import(`../../../widgets/rlnb_widgets/_core/dom.js?${name}`)));
  const ids = copies.flatMap(({ uniqueId }) => [uniqueId("tabs"), uniqueId("tabs")]);
  assert.equal(new Set(ids).size, 4);
});

test("a point is found in a group that is moved, turned and scaled, and not in one that is hidden", () => {
  const area = { kind: "hit", x: 0, x2: 10, y: 0, h: 4, name: "area" };
  const group = (at, more) => [{ kind: "group", at, marks: [area], ...more }];
  const hit = (marks, x, y, params = {}) => hitAt(marks, { width: 500, params }, x, y)?.name ?? null;
  assert.equal(hit(group([100, 50, Math.PI / 2], { scale: 2 }), 95, 65), "area");
  assert.equal(hit(group([100, 50, Math.PI / 2], { scale: 2 }), 105, 65), null);
  assert.equal(hit(group({ param: "part" }), 21, 32, { part: [20, 30, 0] }), "area");
  assert.equal(hit(group({ param: "part" }), 21, 32, { part: null }), null);
});

test("what is framed is called once in the next frame, and not at all once it ended", () => {
  let calls = 0;
  const later = framed(() => { calls += 1; });
  later();
  later();
  assert.equal(runFrame(16), 1);
  later();
  later.destroy();
  runFrame(16);
  assert.equal(calls, 1);
});

test("a motion tells its share of the time, up to all of it, and can start again", () => {
  const shares = [];
  const { start, stop } = motion(40, (share) => shares.push(share));
  start();
  for (const ms of [10, 10, 30, 10]) runFrame(ms);
  assert.deepEqual(shares, [0.25, 0.5, 1]);
  start();
  runFrame(20);
  stop();
  runFrame(20);
  assert.deepEqual(shares.slice(3), [0.5]);
});

test("each frame in which a playhead counts time is told to who asks", () => {
  const playhead = new Playhead(timed({ length: 3 }));
  let told = 0;
  const stop = playhead.everyFrame(() => { told += 1; });
  playhead.play();
  runFrame(10);
  runFrame(10);
  stop();
  runFrame(10);
  assert.equal(told, 2);
  playhead.destroy();
});
