"use strict";
// The store: the sentences of each run with their weights, and the state of the page: which of them it shows, and how.
//
//   store.addRun(run)                           adds a run {name, sites, units, facts, sentences: []} and returns its
//                                               index; its `sites` map each site to [layers, heads]
//   store.addSentence(run, sentence, weights)   adds a sentence to the run of that index, or replaces the one of its
//                                               id. `sentence` is made by `ViewerRun` in data.py; `weights` are the
//                                               weights of all the run's sites in the order of `sites`, each (layer, head,
//                                               row, column): a Uint16Array of parts of 65535, or a Float32Array
//   store.removeSentence(run, id)               removes a sentence from one run
//   store.select(id)                            shows a sentence of every run
//   store.set({layer: 1, head: "mean", ...})    changes the state; its keys are listed in `STATE`
//   store.sentence(run, id)                     the sentence, or undefined
//   store.matrix(run, id, site, layer, head)    an array of rows; `head` is a number or "mean"
//   store.subscribe(listener)                   listener(changes, how): at once after every change of the state ({key:
//                                               value}) and after sentences were added ({sentences: true})
//
// The last argument of `select` and `set`, `how`, is "step" for one of many small changes, such as those of a key that
// the user holds down. Together they are one step of the browser's Back button.
//
// The fragment of the address holds the state. So a link opens the same view, and Back returns to the previous view.

const STATE = {
  id: null, // of the sentence
  site: null,
  layer: 0,
  head: "mean", // or an index
  side: "output",
  view: "matrix", // one of VIEWS
  words: true, // whether words are shown instead of subwords
  hideEos: false,
  gold: true,
  pin: null, // the word whose links are shown: "r3", of row 3, or "c2", of column 2
  stage: 0, // the index of the shown run, if runs are stages of a training
  aside: false, // whether stages are shown side by side
  query: "",
  sort: null,
  only: null,
};

const VIEWS = ["matrix", "lines", "heads", "grid"];

class Store {
  constructor(data, state) {
    this.sites = {}; // {title, axes, aligns, weighedAt} by name
    for (const [name, site] of Object.entries(data.sites)) this.sites[name] = { ...site, title: say(`viewer.site.${name}`) };
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
    const words = { name: sayWords(run.name), facts: (run.facts ?? []).map(sayWords) };
    this.runs.push({ ...run, ...words, byId, weights: new Map() });
  }

  // Sets the weights of the sentences in the page's data. The array holds them run after run, sentence after sentence.
  placeWeights(array) {
    let start = 0;
    for (const run of this.runs) {
      for (const sentence of run.sentences) {
        const weights = this.weightsOf(run, sentence, array, start);
        run.weights.set(sentence.id, weights);
        start = weights.end;
      }
    }
    if (start !== array.length) throw new Error(say("viewer.broken.weights", { wanted: start, found: array.length }));
  }

  addSentence(index, sentence, array) {
    const run = this.runs[index], weights = this.weightsOf(run, sentence, array);
    if (weights.end !== array.length) throw new Error(say("viewer.broken.weights", { wanted: weights.end, found: array.length }));
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

  // Returns [layers, heads] of the shown site in a run.
  size(index = 0) {
    return this.runs[index]?.sites[this.state.site] ?? [0, 0];
  }

  // Returns the indices of the shown runs: all runs, or the chosen stage, or stages side by side.
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
    if (moved) this.state.pin = null; // its index would be that of another word
    Object.assign(this.state, changes);
    this.settle();
    this.notify(changes, how);
  }

  // Corrects values of the state that do not exist, such as the index of a missing layer.
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

// Returns `count` of the items, evenly spread, with the first and the last among them; all if there are not more.
function evenlySpread(items, count) {
  if (items.length <= count) return items;
  return Array.from({ length: count }, (_, i) => items[Math.round((i * (items.length - 1)) / (count - 1))]);
}

const SETTLE_MILLISECONDS = 150; // from the last small change to its entry in the history

class Address {
  // `normal`: the state of a page that is opened without a fragment. `allowed`: key of the state -> list of its values.
  constructor(store, normal, allowed) {
    this.store = store;
    this.normal = normal;
    this.allowed = allowed;
    this.stepping = false; // whether the last entry of the history was made by a step
    this.timer = null;
    this.isWritable = true; // false in a frame without an address, as in a notebook
    this.store.subscribe((_, how) => how === "address" || this.write(how));
    addEventListener("popstate", () => this.follow());
  }

  // Returns the changes of the state in the fragment, without unknown keys and values. `#7` stands for sentence 7.
  read() {
    const text = location.hash.slice(1), changes = {};
    if (/^\d+$/.test(text)) return { id: Number(text) };
    for (const [key, value] of new URLSearchParams(text)) {
      const kind = typeof STATE[key], allowed = this.allowed[key];
      if (!Object.hasOwn(STATE, key) || (allowed && !allowed.includes(value))) continue;
      if (key === "pin" && !/^[rc]\d+$/.test(value)) continue;
      const number = /^\d{1,15}$/.test(value) ? Number(value) : null;
      if (key === "head") changes.head = number ?? "mean";
      else if (kind === "number" || key === "id") number !== null && (changes[key] = number);
      else changes[key] = kind === "boolean" ? value === "1" : value;
    }
    return changes;
  }

  // Returns the fragment of the state: sentence, site, layer and head, and all values that differ from `normal`.
  fragment() {
    const { state } = this.store, parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      const always = ["id", "site", "layer", "head"].includes(key) || (key === "stage" && this.store.stages);
      if (value === null || (value === this.normal[key] && !always)) continue;
      parameters.set(key, typeof value === "boolean" ? String(Number(value)) : value);
    }
    return `#${parameters}`;
  }

  // Writes the fragment. Each change makes an entry of the history. Consecutive steps share one entry, which is written
  // a moment after the last of them.
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
      this.isWritable = !location.protocol.startsWith("about"); // otherwise there were only too many entries in a short time
    }
  }

  follow() {
    clearTimeout(this.timer);
    this.stepping = false;
    this.store.set({ ...this.normal, ...this.read() }, "address");
  }
}

// Copies the address of the page. Returns false if the browser forbids it.
async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    return true;
  } catch {
    return false;
  }
}
