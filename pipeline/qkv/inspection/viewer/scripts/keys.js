"use strict";
// Keyboard shortcuts.

function listenToKeys(store, list, search) {
  const step = (places) => list.neighbour(places) !== null && store.select(list.neighbour(places), "step");
  const turn = (name) => store.set({ [name]: !store.state[name] });
  const stage = (places) => store.stages && store.set({ stage: store.state.stage + places, aside: false }, "step");
  const views = Object.keys(VIEWS);
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    l: () => turnHead(store, 1),
    h: () => turnHead(store, -1),
    w: () => turn("words"),
    e: () => turn("hideEos"),
    v: () => store.set({ view: views[(views.indexOf(store.state.view) + 1) % views.length] }),
    g: () => turn("gold"),
    s: () => store.set({ side: store.state.side === "output" ? "input" : "output" }),
    "[": () => stage(-1),
    "]": () => stage(1),
    Escape: () => store.state.pin && store.set({ pin: null }),
    "/": () => search.focus(),
  };
  keys.ArrowDown = keys.j;
  keys.ArrowUp = keys.k;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.matches?.("input:not([type=checkbox], [type=radio], [type=range]), select, textarea, [contenteditable]");
    const turning = event.target.matches?.("[type=radio], [type=range]") && event.key.startsWith("Arrow");
    if (typing && event.key === "Escape") event.target.blur();
    if (typing || turning || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

// Steps through the heads of a layer, its mean first, and on to the next layer.
function turnHead(store, step) {
  const [layers, heads] = store.size(), { layer, head } = store.state;
  const place = layer * (heads + 1) + (head === "mean" ? 0 : head + 1) + step;
  if (place < 0 || place >= layers * (heads + 1)) return;
  const next = place % (heads + 1);
  store.set({ layer: Math.floor(place / (heads + 1)), head: next === 0 ? "mean" : next - 1 }, "step");
}
