"use strict";
// The page. Other scripts extend it by `viewer`:
//
//   viewer.store                    the sentences and the state, see store.js
//   viewer.ready                    a promise, kept when the page's own sentences can be shown
//   viewer.decorateHeads(hook)      hook(button, {run, sentence, site, layer, head}): called for every head's picture
//                                   whenever it is drawn; may add classes and listeners
//   viewer.addPanel(hook)           hook(section, {run, sentence, site}): called whenever what is shown of a run is
//                                   drawn; may append to it
//   viewer.draw()                   draws again, after something that a hook reads has changed

class Viewer {
  constructor(data) {
    this.data = data;
    this.hooks = { heads: [], panels: [] };
    addOrders(data.orders);
    const { site, layer, head, side } = data;
    this.store = new Store(data, { site, layer, head, side, sort: Object.keys(SORTS)[0], only: Object.keys(FILTERS)[0] });
    this.list = new SentenceList(document.getElementById("list"), data.notes, (id) => this.store.select(id));
    this.form = document.getElementById("controls");
    this.ready = this.start();
    this.ready.catch(({ message }) => {
      document.getElementById("runs").replaceChildren(htmlElement("p", { class: "warning" }, `This page cannot be shown: ${message}`));
    });
  }

  async start() {
    const { store, data } = this;
    document.title = data.title;
    document.getElementById("title").textContent = data.title;
    const asked = Number(location.hash.slice(1));
    if (location.hash.length > 1 && store.sentence(0, asked)) store.state.id = asked;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    fillFilters(document.getElementById("filters"), store);
    this.fillControls();
    this.filter();
    store.placeWeights(await readWeights(document.getElementById("weights").textContent));
    listenToKeys(store, this.list, document.getElementById("search"));
    store.subscribe((changes) => this.change(changes));
    this.change({});
    document.documentElement.dataset.ready = "true";
  }

  decorateHeads(hook) {
    this.hooks.heads.push(hook);
  }

  addPanel(hook) {
    this.hooks.panels.push(hook);
  }

  change(changes) {
    if ("sentences" in changes) this.fillControls();
    if (["query", "sort", "only", "sentences"].some((key) => key in changes)) this.filter();
    this.list.select(this.store.state.id);
    this.draw();
  }

  fillControls() {
    const gold = this.store.runs.some((run) => run.sentences.some((sentence) => sentence.gold.length));
    fillControls(this.form, this.store, { sides: this.data.sides, gold });
  }

  filter() {
    const { sentences } = this.store.runs[0] ?? { sentences: [] };
    const found = chosenSentences([...sentences], this.store.state);
    this.list.show(found);
    document.getElementById("count").textContent = `${found.length} of ${sentences.length} sentences`;
  }

  draw() {
    const { store, hooks } = this, { state, runs } = store, sentence = store.sentence(0, state.id);
    showState(this.form, state);
    if (!sentence) {
      for (const place of ["texts", "runs"]) document.getElementById(place).replaceChildren();
      return;
    }
    const own = runs.map((run, index) => ({ run, sentence: store.sentence(index, state.id) })).filter((one) => one.sentence);
    document.getElementById("texts").replaceChildren(...drawTexts(sentence, own, runs.length > 1));
    document.getElementById("runs").replaceChildren(...runs.map((_, index) => drawSection(store, index, hooks)));
    location.replace(`#${state.id}`);
  }
}
