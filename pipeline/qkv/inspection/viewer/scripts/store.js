"use strict";
// The store: the sentences of each run with their weights, and the state of the page, which is what is shown of them.
//
//   store.addRun(run)                           adds a run {name, sites, units, facts, sentences: []} and returns its
//                                               index; its `sites` map each site to [layers, heads]
//   store.addSentence(run, sentence, weights)   adds a sentence to the run of that index, or replaces the one of its
//                                               id. `sentence` is made by `ViewerRun` in data.py; `weights` are the
//                                               weights of all the run's sites in the order of `sites`, each (layer, head,
//                                               row, column): a Uint16Array of parts of 65535, or a Float32Array
//   store.removeSentence(run, id)               removes a sentence from one run
//   store.select(id)                            shows that sentence of every run
//   store.set({layer: 1, head: "mean", ...})    changes the state; its keys are listed in `STATE`
//   store.sentence(run, id)                     the sentence, or undefined
//   store.matrix(run, id, site, layer, head)    an array of rows; `head` is a number or "mean"
//   store.subscribe(listener)                   listener(changes, how): at once after every change of the state ({key:
//                                               value}) and after sentences were added ({sentences: true})
//
// The last argument of `select` and `set`, `how`, is "step" for one of many small changes, such as the repeats of a key that
// is held: together they are one step of the browser's Back.
//
// The address follows the state: its fragment holds it, so that a link shares a view and Back returns to the one before.

const STATE = {
  id: null, // of the sentence
  site: null,
  layer: 0,
  head: "mean", // or a number
  side: "output",
  view: "matrix", // one of VIEWS
  words: true, // words for subwords
  hideEos: false,
  gold: true,
  pin: null, // the word whose links are shown: "r3", of row 3, or "c2", of column 2
  stage: 0, // which run, where runs are stages of a training
  aside: false, // whether stages are shown side by side
  query: "",
  sort: null,
  only: null,
};

const VIEWS = { matrix: "matrix", lines: "lines", heads: "all heads", grid: "all layers" };

class Store {
  constructor(data, state) {
    this.sites = data.sites; // {title, axes, aligns} by name
    this.stages = data.stages ?? false;
    this.runs = [];
    this.listeners = [];
    this.state = { ...STATE, ...state };
    for (const run of data.runs) this.placeRun(run);
    this.settle();
  }

  addRun(run) {
    this.placeRun(run);
    this.settle();
    return this.runs.length - 1;
  }

  placeRun(run) {
    const byId = new Map(run.sentences.map((sentence) => [sentence.id, sentence]));
    this.runs.push({ ...run, byId, weights: new Map() });
  }

  // Gives the sentences with which the page was written their weights: run after run, sentence after sentence. Others
  // can be added afterwards.
  placeWeights(array) {
    let start = 0;
    for (const run of this.runs) {
      for (const sentence of run.sentences) {
        const weights = this.weightsOf(run, sentence, array, start);
        run.weights.set(sentence.id, weights);
        start = weights.end;
      }
    }
    if (start !== array.length) throw new Error(`expected ${start} weights, found ${array.length}`);
  }

  addSentence(index, sentence, array) {
    const run = this.runs[index], weights = this.weightsOf(run, sentence, array);
    if (weights.end !== array.length) throw new Error(`expected ${weights.end} weights, found ${array.length}`);
    const place = run.sentences.findIndex(({ id }) => id === sentence.id);
    if (place < 0) run.sentences.push(sentence);
    else run.sentences[place] = sentence;
    run.byId.set(sentence.id, sentence);
    run.weights.set(sentence.id, weights);
    this.settle();
    this.notify({ sentences: true });
  }

  removeSentence(index, id) {
    const run = this.runs[index];
    run.sentences = run.sentences.filter((sentence) => sentence.id !== id);
    run.byId.delete(id);
    run.weights.delete(id);
    this.settle();
    this.notify({ sentences: true });
  }

  weightsOf(run, sentence, array, start = 0) {
    const axes = Object.fromEntries(Object.keys(run.sites).map((site) => [site, this.sites[site].axes]));
    return new SentenceWeights(sentence, run.sites, axes, array, start);
  }

  sentence(index, id) {
    return this.runs[index]?.byId.get(id);
  }

  matrix(index, id, site, layer, head) {
    return this.runs[index].weights.get(id).matrix(site, layer, head);
  }

  // [layers, heads] of the shown site, in a run.
  size(index = 0) {
    return this.runs[index]?.sites[this.state.site] ?? [0, 0];
  }

  // The indices of the runs that are shown: all, or the stage that is chosen.
  shownRuns() {
    const all = [...this.runs.keys()];
    if (!this.stages) return all;
    return this.state.aside ? evenlySpread(all, MOST_ASIDE) : [this.state.stage];
  }

  select(id, how) {
    this.set({ id }, how);
  }

  set(changes, how) {
    const moved = ["id", "site", "side", "words", "hideEos"].some((key) => key in changes && changes[key] !== this.state[key]);
    if (moved) this.state.pin = null; // its place is another word's now
    Object.assign(this.state, changes);
    this.settle();
    this.notify(changes, how);
  }

  // Keeps the state within what there is.
  settle() {
    const { state, runs } = this, sites = runs[0]?.sites ?? {};
    if (!Object.hasOwn(sites, state.site)) state.site = Object.keys(sites)[0] ?? null;
    if (!runs[0]?.byId.has(state.id)) state.id = runs[0]?.sentences[0]?.id ?? null;
    const [layers, heads] = this.size();
    state.layer = Math.max(0, Math.min(state.layer, layers - 1));
    if (state.head !== "mean" && !(state.head < heads)) state.head = "mean";
    state.stage = Math.max(0, Math.min(state.stage, runs.length - 1));
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  notify(changes, how = null) {
    for (const listener of this.listeners) listener(changes, how);
  }
}

const MOST_ASIDE = 8; // stages side by side

// Some of many items, with the first and the last.
function evenlySpread(items, count) {
  if (items.length <= count) return items;
  return Array.from({ length: count }, (_, i) => items[Math.round((i * (items.length - 1)) / (count - 1))]);
}

const SETTLE_MILLISECONDS = 150;

class Address {
  // `normal` is the state of a page that was opened without a fragment; `allowed` lists the values of some keys.
  constructor(store, normal, allowed) {
    this.store = store;
    this.normal = normal;
    this.allowed = allowed;
    this.stepping = false; // whether the last entry of the history was made by a step
    this.timer = null;
    this.kept = true; // false in a frame without an address of its own, such as a notebook's
    this.store.subscribe((_, how) => how === "address" || this.write(how));
    addEventListener("popstate", () => this.follow());
  }

  // The changes that the fragment asks for; what makes no sense is left out. `#7` is sentence 7.
  read() {
    const text = location.hash.slice(1), changes = {};
    if (/^\d+$/.test(text)) return { id: Number(text) };
    for (const [key, given] of new URLSearchParams(text)) {
      const kind = typeof STATE[key], allowed = this.allowed[key];
      if (!Object.hasOwn(STATE, key) || (allowed && !allowed.includes(given))) continue;
      if (key === "pin" && !/^[rc]\d+$/.test(given)) continue;
      const number = /^\d{1,15}$/.test(given) ? Number(given) : null;
      if (key === "head") changes.head = number ?? "mean";
      else if (kind === "number" || key === "id") number !== null && (changes[key] = number);
      else changes[key] = kind === "boolean" ? given === "1" : given;
    }
    return changes;
  }

  // The fragment of the state: what is shown of which sentence, and all else that is not as usual.
  fragment() {
    const { state } = this.store, parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      const always = ["id", "site", "layer", "head"].includes(key) || (key === "stage" && this.store.stages);
      if (value === null || (value === this.normal[key] && !always)) continue;
      parameters.set(key, typeof value === "boolean" ? String(Number(value)) : value);
    }
    return `#${parameters}`;
  }

  // One entry of the history for each choice; steps that follow each other share one, which is written when they rest.
  write(how) {
    clearTimeout(this.timer);
    if (how === "step" && this.stepping) {
      this.timer = setTimeout(() => this.put("replaceState"), SETTLE_MILLISECONDS);
      return;
    }
    this.stepping = how === "step";
    this.put(how === "open" ? "replaceState" : "pushState");
  }

  put(method) {
    const fragment = this.fragment();
    if (fragment === location.hash) return;
    try {
      history[method](null, "", fragment);
    } catch {
      this.kept = !location.protocol.startsWith("about"); // elsewhere the browser only had too many entries at once
    }
  }

  follow() {
    clearTimeout(this.timer);
    this.stepping = false;
    this.store.set({ ...this.normal, ...this.read() }, "address");
  }
}

// Copies the link to what is shown; false if the browser does not let it.
async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    return true;
  } catch {
    return false;
  }
}
