"use strict";
// The header, the controls of the page and of the list of sentences, and the keyboard.

// Fills the title and the facts of the run. If there are several runs, their facts are above their pictures instead.
function fillHeader(header, data) {
  document.title = data.title;
  header.querySelector("h1").textContent = data.title;
  const [run] = data.runs, facts = data.runs.length === 1 || data.stages ? [...(run?.facts ?? [])] : [];
  const count = run?.sentences.length ?? 0;
  if (run?.sentencesInSet > count) facts.push(`first ${count.toLocaleString("en")} of ${run.sentencesInSet.toLocaleString("en")} sentences`);
  header.querySelector("#facts").textContent = facts.join(" · ");
}

// Makes the button copy the link. If the browser forbids that, the link is shown, so that the user can copy it.
function listenToCopy(button, status) {
  button.addEventListener("click", async () => {
    const copied = await copyLink();
    status.textContent = copied ? say("viewer.copied") : location.href;
    if (copied) setTimeout(() => { status.textContent = ""; }, 2000);
  });
}

function labelled(label, element, before = true) {
  const wrapper = htmlElement("label");
  wrapper.append(...(before ? [htmlElement("span", {}, label), element] : [element, htmlElement("span", {}, label)]));
  return wrapper;
}

function optionsOf(rows) {
  return rows.map(([value, text]) => htmlElement("option", { value }, text));
}

// Fills the form with the controls. `gold`: whether any sentence has gold links.
function fillControls(form, store, { sides, gold }) {
  const select = (name, rows, label) => {
    const element = htmlElement("select", { name });
    element.append(...optionsOf(rows));
    element.addEventListener("change", () => store.set({ [name]: element.value }));
    form.append(labelled(label, element));
  };
  const toggle = (name, label, title = null) => {
    const element = htmlElement("input", { type: "checkbox", name });
    element.addEventListener("change", () => store.set({ [name]: element.checked }));
    form.append(labelled(label, element, false));
    form.lastChild.title = title ?? "";
  };
  form.replaceChildren(viewButtons(store));
  const sites = Object.keys(store.runs[0]?.sites ?? {});
  if (sites.length > 1) select("site", sites.map((site) => [site, store.sites[site].title]), "Attention");
  select("side", sides.map((side) => [side, `${side} tokens`]), "Row labels");
  toggle("words", "words", "Words for subwords: columns are added up, rows averaged");
  toggle("hideEos", "without EOS", "Leaves out EOS and makes each row sum to one again");
  if (gold) toggle("gold", "gold links", "Links that people made, where the translation is the reference");
  if (store.stages) form.append(stageSlider(store));
  if (store.stages) toggle("aside", "side by side");
  showState(form, store.state);
}

function viewButtons(store) {
  const group = htmlElement("fieldset", { class: "segments" });
  group.append(htmlElement("legend", {}, "Picture"));
  for (const [view, label] of Object.entries(VIEWS)) {
    const element = htmlElement("input", { type: "radio", name: "view", value: view });
    element.addEventListener("change", () => store.set({ view }));
    group.append(labelled(label, element, false));
  }
  return group;
}

// Returns the slider over the stages of a training.
function stageSlider(store) {
  const slider = htmlElement("input", { type: "range", name: "stage", min: 0, max: store.runs.length - 1, step: 1, "aria-label": "Stage of training" });
  slider.addEventListener("input", () => store.set({ stage: Number(slider.value), aside: false }, "step"));
  const wrapper = labelled("Training", slider);
  wrapper.append(htmlElement("output", { class: "stage" }));
  store.subscribe(() => nameStage(slider, wrapper, store));
  nameStage(slider, wrapper, store);
  return wrapper;
}

function nameStage(slider, wrapper, store) {
  const { name } = store.runs[store.state.stage];
  slider.setAttribute("aria-valuetext", name);
  wrapper.querySelector("output").textContent = name;
}

// Sets every control of a form to the value in the state.
function showState(form, state) {
  for (const element of form.elements) {
    if (!(element.name in state)) continue;
    if (element.type === "checkbox") element.checked = state[element.name];
    else if (element.type === "radio") element.checked = state[element.name] === element.value;
    else if (element.value !== String(state[element.name])) element.value = state[element.name];
  }
}

function fillFilters(form, store) {
  for (const [name, rows] of [["sort", SORTS], ["only", FILTERS]]) {
    const element = form.elements[name];
    element.append(...optionsOf(Object.keys(rows).map((option) => [option, option])));
    element.addEventListener("change", () => store.set({ [name]: element.value }));
  }
  form.elements.query.addEventListener("input", ({ target }) => store.set({ query: target.value }, "step"));
}

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

// Moves to another head: through the mean and the heads of a layer, then on to the next layer.
function turnHead(store, step) {
  const [layers, heads] = store.size(), { layer, head } = store.state;
  const place = layer * (heads + 1) + (head === "mean" ? 0 : head + 1) + step;
  if (place < 0 || place >= layers * (heads + 1)) return;
  const next = place % (heads + 1);
  store.set({ layer: Math.floor(place / (heads + 1)), head: next === 0 ? "mean" : next - 1 }, "step");
}
