"use strict";
// The store: the sentences of each run with their weights, and the state of the page, which is what is shown of them.
//
//   store.addRun(run)                           adds a run {name, sites, units, sentences: []} and returns its index;
//                                               its `sites` map each site to [layers, heads]
//   store.addSentence(run, sentence, weights)   adds a sentence to the run of that index, or replaces the one of its
//                                               id. `sentence` is made by `ViewerRun` in viewer_run.py; `weights` are
//                                               those of all the run's sites in the order of `sites`, each (layer, head,
//                                               row, column): a Uint16Array of parts of 65535, or a Float32Array
//   store.select(id)                            shows that sentence of every run
//   store.set({layer: 1, head: "mean", ...})    changes the state; see `state` below for its keys
//   store.sentence(run, id)                     the sentence, or undefined
//   store.matrix(run, id, site, layer, head)    an array of rows; `head` is a number or "mean"
//   store.subscribe(listener)                   listener(changes): after every change of the state ({key: value}) and
//                                               after sentences were added ({sentences: true}), at once

class Store {
  constructor(data, state) {
    this.sites = data.sites; // {title, axes, aligns} by name
    this.runs = [];
    this.listeners = [];
    this.state = {
      id: null, site: null, layer: 0, head: "mean", side: "output",
      words: true, hideEos: false, lines: false, gold: true, query: "", sort: "", only: "", ...state,
    };
    for (const run of data.runs) this.addRun(run);
  }

  addRun(run) {
    const index = this.runs.push({ ...run, byId: new Map(), weights: new Map() }) - 1;
    for (const sentence of run.sentences) this.runs[index].byId.set(sentence.id, sentence);
    this.settle();
    return index;
  }

  // Gives the sentences with which the page was written their weights: run after run, sentence after sentence.
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

  select(id) {
    this.set({ id });
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.settle();
    this.notify(changes);
  }

  // Keeps the state within what there is.
  settle() {
    const { state, runs } = this, sites = runs[0]?.sites ?? {};
    if (!(state.site in sites)) state.site = Object.keys(sites)[0] ?? null;
    if (!runs[0]?.byId.has(state.id)) state.id = runs[0]?.sentences[0]?.id ?? null;
    const [layers, heads] = this.size();
    state.layer = Math.min(state.layer, Math.max(0, layers - 1));
    if (state.head !== "mean" && state.head >= heads) state.head = "mean";
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  notify(changes) {
    for (const listener of this.listeners) listener(changes);
  }
}
