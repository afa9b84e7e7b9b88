"use strict";
// The header, the controls of the page and of the list of sentences, and the keyboard.

// Fills the title and the facts of the run. If there are several runs, their facts are above their pictures instead.
function fillHeader(header, title, { runs, stages }) {
  document.title = stages ? say("viewer.training", { title }) : title;
  header.querySelector("h1").textContent = document.title;
  const [run] = runs, facts = runs.length === 1 || stages ? [...(run?.facts ?? [])] : [];
  const count = run?.sentences.length ?? 0;
  if (run?.sentencesInSet > count) facts.push(say("viewer.fact.first", { count, all: run.sentencesInSet }));
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
  const toggle = (name, key, title = null) => {
    const element = htmlElement("input", { type: "checkbox", name });
    element.addEventListener("change", () => store.set({ [name]: element.checked }));
    form.append(labelled(say(key), element, false));
    form.lastChild.title = title ? say(title) : "";
  };
  form.replaceChildren(viewButtons(store));
  const sites = Object.keys(store.runs[0]?.sites ?? {});
  if (sites.length > 1) select("site", sites.map((site) => [site, store.sites[site].title]), say("viewer.site"));
  select("side", sides.map((side) => [side, say(`viewer.side.${side}`)]), say("viewer.side"));
  toggle("words", "viewer.words", "viewer.words.title");
  toggle("hideEos", "viewer.eos", "viewer.eos.title");
  if (gold) toggle("gold", "viewer.gold", "viewer.gold.title");
  if (store.stages) form.append(stageSlider(store));
  if (store.stages) toggle("aside", "viewer.aside");
  showState(form, store.state);
}

function viewButtons(store) {
  const group = htmlElement("fieldset", { class: "segments" });
  group.append(htmlElement("legend", {}, say("viewer.view")));
  for (const view of VIEWS) {
    const element = htmlElement("input", { type: "radio", name: "view", value: view });
    element.addEventListener("change", () => store.set({ view }));
    group.append(labelled(say(`viewer.view.${view}`), element, false));
  }
  return group;
}

// Returns the slider over the stages of a training.
function stageSlider(store) {
  const slider = htmlElement("input", { type: "range", name: "stage", min: 0, max: store.runs.length - 1, step: 1, "aria-label": say("viewer.slider.label") });
  slider.addEventListener("input", () => store.set({ stage: Number(slider.value), aside: false }, "step"));
  const wrapper = labelled(say("viewer.slider"), slider);
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
  const rows = { sort: Object.keys(SORTS).map((sort) => [sort, SORT_LABELS[sort] ?? say(`viewer.sort.${sort}`)]), only: Object.keys(FILTERS).map((only) => [only, say(`viewer.only.${only}`)]) };
  for (const name of ["sort", "only"]) {
    const element = form.elements[name];
    element.append(...optionsOf(rows[name]));
    element.addEventListener("change", () => store.set({ [name]: element.value }));
  }
  form.elements.query.addEventListener("input", ({ target }) => store.set({ query: target.value }, "step"));
}

function listenToKeys(store, list, search) {
  const step = (places) => list.neighbour(places) !== null && store.select(list.neighbour(places), "step");
  const turn = (name) => store.set({ [name]: !store.state[name] });
  const stage = (places) => store.stages && store.set({ stage: store.state.stage + places, aside: false }, "step");
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    l: () => turnHead(store, 1),
    h: () => turnHead(store, -1),
    w: () => turn("words"),
    e: () => turn("hideEos"),
    v: () => store.set({ view: VIEWS[(VIEWS.indexOf(store.state.view) + 1) % VIEWS.length] }),
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
    const turning = event.target.matches?.("[type=radio], [type=range], .aside, #help > div") && event.key.startsWith("Arrow");
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
