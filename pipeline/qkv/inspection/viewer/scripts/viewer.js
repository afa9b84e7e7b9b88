"use strict";
// The page. Scripts that another page adds extend it by `viewer`, the one instance of the class below:
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
    const { site, layer, head, side } = data, own = { sort: Object.keys(SORTS)[0], only: Object.keys(FILTERS)[0] };
    this.toldHead = head !== null; // whether the head that opens first is known
    this.store = new Store(data, { site, layer: layer ?? 0, head: head ?? "mean", side, ...own, stage: data.runs.length - 1 });
    this.list = new SentenceList(document.getElementById("list"), data.notes, (id) => this.store.select(id));
    this.controls = document.getElementById("controls");
    this.filters = document.getElementById("filters");
    this.ready = this.start();
    this.ready.catch(({ message }) => {
      document.getElementById("runs").replaceChildren(htmlElement("p", { class: "warning" }, `This page cannot be shown: ${message}`));
    });
  }

  async start() {
    const { store, data } = this;
    fillHeader(document.querySelector("header"), data);
    for (const form of [this.controls, this.filters]) form.addEventListener("submit", (event) => event.preventDefault());
    fillFilters(this.filters, store);
    store.placeWeights(await readWeights(document.getElementById("weights").textContent));
    this.openTellingHead();
    const allowed = { view: Object.keys(VIEWS), side: data.sides, sort: Object.keys(SORTS), only: Object.keys(FILTERS), site: Object.keys(store.sites) };
    const address = new Address(store, { ...store.state }, allowed);
    Object.assign(store.state, address.read());
    store.settle();
    store.listeners.unshift((changes, how) => this.change(changes, how)); // before the address is written
    listenToKeys(store, this.list, this.filters.elements.query);
    listenToCopy(document.getElementById("copy"), document.getElementById("copied"));
    this.watchWindow();
    store.notify({ sentences: true }, "open");
    document.getElementById("copy").hidden = !address.kept;
    document.documentElement.dataset.ready = "true";
  }

  decorateHeads(hook) {
    this.hooks.heads.push(hook);
  }

  addPanel(hook) {
    this.hooks.panels.push(hook);
  }

  // Opens the head that tells most, once there are sentences, where the page was not told which.
  openTellingHead() {
    const { store } = this, found = this.toldHead ? null : mostTellingHead(store, store.stages ? store.runs.length - 1 : 0, store.state.site);
    if (!found) return;
    this.toldHead = true;
    Object.assign(store.state, found);
  }

  change(changes, how) {
    const filtered = ["query", "sort", "only"].some((key) => key in changes), cleared = changes.query === "";
    if ("sentences" in changes) {
      this.openTellingHead();
      this.fillControls();
    }
    if (filtered || "sentences" in changes) this.filter(filtered && !cleared && how !== "address");
    this.list.select(this.store.state.id);
    this.draw();
  }

  fillControls() {
    const { store } = this, gold = store.runs.some((run) => run.sentences.some((sentence) => sentence.gold.length));
    const kind = JSON.stringify([gold, Object.keys(store.runs[0]?.sites ?? {})]);
    if (kind !== this.controlsKind) fillControls(this.controls, store, { sides: this.data.sides, gold });
    this.controlsKind = kind;
  }

  // Lists the sentences that are searched for; `open` opens the first of them, to which the list scrolls. When
  // a search is cleared, what it found stays open.
  filter(open) {
    const { state, runs } = this.store, { sentences } = runs[0] ?? { sentences: [] };
    const found = chosenSentences([...sentences], state);
    this.list.show(found, state.query);
    const [shown, all] = [found.length, sentences.length].map((number) => number.toLocaleString("en"));
    document.getElementById("count").textContent = `${shown === all ? "" : `${shown} of `}${all} ${all === "1" ? "sentence" : "sentences"}`;
    if (open && found.length) Object.assign(state, { id: found[0].id, pin: null });
  }

  draw() {
    const { store, hooks } = this, { state, runs } = store, sentence = store.sentence(0, state.id);
    const [texts, place] = ["texts", "runs"].map((id) => document.getElementById(id));
    for (const form of [this.controls, this.filters]) showState(form, state);
    if (!sentence) {
      for (const element of [texts, place]) element.replaceChildren();
      return;
    }
    const indices = store.shownRuns();
    const own = indices.map((index) => ({ run: runs[index], sentence: store.sentence(index, state.id) })).filter((one) => one.sentence);
    texts.replaceChildren(...drawTexts(sentence, own, own.length > 1, state.query));
    keepPlace(place, () => {
      const sections = indices.map(() => htmlElement("section", { class: "run" }));
      const fills = sections.map((section, i) => drawSection(section, store, indices[i], hooks));
      place.replaceChildren(...sections);
      fills.forEach((fill) => fill());
    });
  }

  // Pictures are made for the width of the window and the colours of the system.
  watchWindow() {
    const place = document.getElementById("runs");
    let width = place.clientWidth, waiting = 0;
    new ResizeObserver(() => {
      if (place.clientWidth === width) return;
      width = place.clientWidth;
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.draw());
    }).observe(place);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", () => this.draw());
  }
}
