"use strict";
// The page: its state, its controls, and what it shows of the chosen sentence.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = data.runs.map((run) => new Map(run.sentences.map((sentence) => [sentence.id, sentence])));
const sites = Object.keys(data.runs[0].sites);
const state = {
  id: data.runs[0].sentences[0]?.id ?? null,
  site: sites.includes(data.site) ? data.site : sites[0], layer: data.layer ?? 0, head: data.head ?? "mean", side: data.side ?? "output",
  words: true, hideEos: false, lines: false, gold: true,
  query: "", sort: Object.keys(SORTS)[0], only: Object.keys(FILTERS)[0],
};
let weights = null;

addOrders(data.orders);
const list = new SentenceList(document.getElementById("list"), data.notes, (id) => set({ id }));

function set(changes) {
  Object.assign(state, changes);
  const [layers, heads] = data.runs[0].sites[state.site] ?? [0, 0];
  state.layer = Math.min(state.layer, Math.max(0, layers - 1));
  if (state.head !== "mean" && state.head >= heads) state.head = "mean";
  if ("query" in changes || "sort" in changes || "only" in changes) filter();
  list.select(state.id);
  show();
}

function filter() {
  const found = chosenSentences([...data.runs[0].sentences], state);
  list.show(found);
  document.getElementById("count").textContent = `${found.length} of ${data.runs[0].sentences.length} sentences`;
}

function controls() {
  const form = document.getElementById("controls");
  const select = (name, options, label) => {
    const element = htmlElement("select", { name });
    for (const [value, text] of options) element.append(htmlElement("option", { value }, text));
    element.value = state[name];
    element.addEventListener("change", () => set({ [name]: element.value }));
    const wrapper = htmlElement("label", {}, `${label} `);
    wrapper.append(element);
    form.append(wrapper);
  };
  const toggle = (name, label) => {
    const element = htmlElement("input", { type: "checkbox", name });
    element.checked = state[name];
    element.addEventListener("change", () => set({ [name]: element.checked }));
    const wrapper = htmlElement("label");
    wrapper.append(element, ` ${label}`);
    form.append(wrapper);
  };
  select("site", sites.map((site) => [site, data.sites[site].title]), "attention");
  select("side", data.sides.map((side) => [side, `${side} tokens`]), "rows are labelled with");
  toggle("words", "words");
  toggle("hideEos", "without EOS, rows renormalised");
  toggle("lines", "lines");
  if (data.runs.some((run) => run.sentences.some((sentence) => sentence.gold.length))) toggle("gold", "gold links");
  form.addEventListener("submit", (event) => event.preventDefault());
}

function filters() {
  for (const [name, options] of [["sort", SORTS], ["only", FILTERS]]) {
    const element = document.getElementById(name);
    for (const option of Object.keys(options)) element.append(htmlElement("option", { value: option }, option));
    element.addEventListener("change", () => set({ [name]: element.value }));
  }
  const search = document.getElementById("search");
  search.addEventListener("input", () => set({ query: search.value }));
}

function showTexts(sentence) {
  const texts = document.getElementById("texts");
  texts.replaceChildren();
  const add = (name, text, kind = "") => {
    texts.append(htmlElement("span", { class: "name" }, name), htmlElement("span", { dir: "auto", class: kind }, text));
  };
  add("source", sentence.sourceText);
  if (sentence.reference !== null) add("reference", sentence.reference);
  data.runs.forEach((run, i) => {
    const own = byId[i].get(sentence.id);
    if (!own) return;
    const what = own.mode === "forced" ? "forced" : "translation";
    add(data.runs.length > 1 ? `${what}, ${run.name}` : what, own.hypothesis);
    if (own.plain !== null && own.plain !== own.hypothesis) add(data.runs.length > 1 ? `plain text, ${run.name}` : "plain text", own.plain);
    if (own.truncated) add("", "cut short at the longest length allowed", "warning");
    if (own.underAttended) add("hardly attended to", own.underAttended, "warning");
  });
}

function showRun(run, sentence) {
  const section = htmlElement("section", { class: "run", "aria-label": run.name });
  if (data.runs.length > 1) section.append(htmlElement("h2", { dir: "auto" }, run.name));
  const [layers, heads] = run.sites[state.site];
  const { title, axes, aligns } = data.sites[state.site];
  if (!layers || !sentence) {
    section.append(htmlElement("p", {}, sentence ? "This model has no such attention." : "This run does not have this sentence."));
    return section;
  }
  section.append(headGrid(run, sentence, layers, heads));
  const layer = Math.min(state.layer, layers - 1), head = state.head === "mean" || state.head < heads ? state.head : "mean";
  const texts = { rows: wordsOf(run, sentence, axes[0]), columns: wordsOf(run, sentence, axes[1]) };
  const tokens = tokensOf(sentence, axes, state.side);
  const shown = present(readMatrix(weights, run, sentence, state.site, layer, head), tokens, texts, state);
  const heading = `${title}, layer ${layer}, ${head === "mean" ? "mean of heads" : `head ${head}`}, ${state.side} side`;
  section.append(htmlElement("h2", {}, heading + (state.hideEos ? " (without EOS, rows renormalised)" : "")));
  const units = state.words ? unitsInWords(run) : "";
  if (units) section.append(htmlElement("p", { class: "units" }, units));
  const value = htmlElement("div", { class: "value", dir: "auto", "aria-live": "polite" });
  const picture = htmlElement("div", { class: "picture" });
  const gold = state.gold && aligns && state.words ? sentence.gold : [];
  const draw = state.lines ? drawLines : drawMatrix;
  picture.append(draw(shown, gold, (text) => { value.textContent = text; }));
  const whole = !state.words && !state.hideEos && axes[0] === "target" && state.side === "output";
  section.append(value, picture, drawTable(shown, whole ? sentence.logProbabilities : null));
  return section;
}

// Which sides have words that are not separated by spaces, and what counts as a word there.
function unitsInWords(run) {
  const sides = Object.entries(run.units).filter(([, unit]) => unit !== "spaces");
  return sides.map(([side, unit]) => `Words of the ${side} are its ${unit}.`).join(" ");
}

function headGrid(run, sentence, layers, heads) {
  const grid = htmlElement("div", { class: "heads", role: "group", "aria-label": "Layers and heads" });
  grid.style.gridTemplateColumns = `auto repeat(${heads + 1}, auto)`;
  for (let layer = 0; layer < layers; layer++) {
    grid.append(htmlElement("span", {}, `layer ${layer}`));
    for (const head of ["mean", ...Array(heads).keys()]) {
      const name = `layer ${layer}, ${head === "mean" ? "mean" : `head ${head}`}`;
      const pressed = layer === state.layer && head === state.head;
      const button = htmlElement("button", { type: "button", title: name, "aria-label": name, "aria-pressed": pressed });
      const canvas = htmlElement("canvas");
      drawThumbnail(canvas, readMatrix(weights, run, sentence, state.site, layer, head));
      button.append(canvas);
      button.addEventListener("click", () => set({ layer, head }));
      grid.append(button);
    }
  }
  return grid;
}

function show() {
  const sentence = byId[0].get(state.id);
  const runs = document.getElementById("runs");
  if (!sentence || !weights) return;
  for (const element of document.getElementById("controls").elements) {
    if (element.type === "checkbox") element.checked = state[element.name];
    else if (element.name in state) element.value = state[element.name];
  }
  showTexts(sentence);
  runs.replaceChildren(...data.runs.map((run, i) => showRun(run, byId[i].get(state.id))));
  location.replace(`#${state.id}`);
}

const KEYS = {
  j: () => list.neighbour(1) !== null && set({ id: list.neighbour(1) }),
  k: () => list.neighbour(-1) !== null && set({ id: list.neighbour(-1) }),
  l: () => turnHead(1),
  h: () => turnHead(-1),
  w: () => set({ words: !state.words }),
  e: () => set({ hideEos: !state.hideEos }),
  v: () => set({ lines: !state.lines }),
  g: () => set({ gold: !state.gold }),
  s: () => set({ side: state.side === "output" ? "input" : "output" }),
  "/": () => document.getElementById("search").focus(),
};
KEYS.ArrowDown = KEYS.j;
KEYS.ArrowUp = KEYS.k;

// Steps through the heads of a layer, its mean first, and on to the next layer.
function turnHead(step) {
  const [layers, heads] = data.runs[0].sites[state.site];
  const place = state.layer * (heads + 1) + (state.head === "mean" ? 0 : state.head + 1) + step;
  if (place < 0 || place >= layers * (heads + 1)) return;
  const head = place % (heads + 1);
  set({ layer: Math.floor(place / (heads + 1)), head: head === 0 ? "mean" : head - 1 });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input[type=search], select");
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

async function start() {
  document.title = data.title;
  document.getElementById("title").textContent = data.title;
  const asked = Number(location.hash.slice(1));
  if (location.hash.length > 1 && byId[0].has(asked)) state.id = asked;
  filters();
  controls();
  filter();
  const count = placeWeights(data.runs);
  weights = await readWeights(document.getElementById("weights").textContent);
  if (weights.length !== count) throw new Error(`expected ${count} weights, found ${weights.length}`);
  set({});
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.getElementById("runs").replaceChildren(htmlElement("p", { class: "warning" }, `This page cannot be shown: ${error.message}`));
});
