"use strict";
// The page. Scripts of other pages extend it through `viewer`, the only instance of the class below:
//
//   viewer.store                    the sentences and the state, see store.js
//   viewer.ready                    a promise that is fulfilled when the sentences of the page's data can be shown
//   viewer.decorateHeads(hook)      hook(button, {run, sentence, site, layer, head}) is called for the picture of every
//                                   head whenever it is drawn; it may add classes and listeners. `run` is an index
//   viewer.addPanel(hook)           hook(section, {run, sentence, site}) is called whenever the section of a run is
//                                   drawn; it may append to the section
//   viewer.draw()                   draws again, after a change of data that a hook reads

class Viewer {
  constructor(data) {
    this.data = data;
    document.documentElement.lang = pageLanguage();
    sayAll(document);
    this.hooks = { heads: [], panels: [] };
    addOrders(data.orders);
    if (data.runs.some(({ sentences }) => sentences.some(hasConfidence))) SORTS.confidence = ({ confidence }) => confidence ?? 0;
    const { site, layer, head, side } = data, list = { sort: Object.keys(SORTS)[0], only: Object.keys(FILTERS)[0] };
    this.toldHead = head !== null; // whether the first shown head has been chosen
    this.store = new Store(data, { site, layer: layer ?? 0, head: head ?? "mean", side, ...list, stage: data.runs.length - 1 });
    this.list = new SentenceList(document.getElementById("list"), data.notes, (id) => this.store.select(id));
    this.controls = document.getElementById("controls");
    this.filters = document.getElementById("filters");
    this.ready = this.start();
    this.ready.catch(({ message }) => {
      document.getElementById("runs").replaceChildren(htmlElement("p", { class: "warning" }, say("viewer.broken", { reason: message })));
    });
  }

  async start() {
    const { store, data } = this;
    fillHeader(document.querySelector("header"), data.title, store);
    for (const form of [this.controls, this.filters]) form.addEventListener("submit", (event) => event.preventDefault());
    fillFilters(this.filters, store);
    store.placeWeights(await readWeights(document.getElementById("weights").textContent));
    this.openFirstHead();
    const allowed = { view: VIEWS, side: data.sides, sort: Object.keys(SORTS), only: Object.keys(FILTERS), site: Object.keys(store.sites) };
    const address = new Address(store, { ...store.state }, allowed);
    Object.assign(store.state, address.read());
    store.settle();
    store.listeners.unshift((changes, how) => this.change(changes, how)); // called before the address is written
    listenToKeys(store, this.list, this.filters.elements.query);
    listenToCopy(document.getElementById("copy"), document.getElementById("copied"));
    this.watchWindow();
    store.notify({ sentences: true }, "open");
    document.getElementById("copy").hidden = !address.isWritable;
    document.documentElement.dataset.ready = "true";
  }

  decorateHeads(hook) {
    this.hooks.heads.push(hook);
  }

  addPanel(hook) {
    this.hooks.panels.push(hook);
  }

  // Chooses the head that is shown first, see heads.js, if the page's data name no head and there are sentences.
  openFirstHead() {
    const { store } = this, index = store.stages ? store.runs.length - 1 : 0, { site, side } = store.state;
    const head = this.toldHead ? null : firstHead(store, index, site, side);
    if (!head) return;
    this.toldHead = true;
    Object.assign(store.state, head);
  }

  change(changes, how) {
    const filtered = ["query", "sort", "only"].some((key) => key in changes), cleared = changes.query === "";
    if ("sentences" in changes) {
      this.openFirstHead();
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

  // Lists the sentences that match query and filter. `open`: whether the first of them is shown. It is false when a
  // search is cleared, so that the current sentence stays.
  filter(open) {
    const { state, runs } = this.store, { sentences } = runs[0] ?? { sentences: [] };
    const matches = chosenSentences([...sentences], state);
    this.list.show(matches, state.query);
    const shown = matches.length, all = sentences.length;
    document.getElementById("count").textContent = shown === all ? say("viewer.count", { count: all }) : say("viewer.count.some", { count: all, shown });
    if (open && matches.length) Object.assign(state, { id: matches[0].id, pin: null });
  }

  draw() {
    const { store, hooks } = this, { state, runs } = store, sentence = store.sentence(0, state.id);
    const [texts, place] = ["texts", "runs"].map((id) => document.getElementById(id));
    for (const form of [this.controls, this.filters]) showState(form, state);
    const side = this.controls.elements.side?.closest("label");
    if (side) side.hidden = store.sites[state.site]?.axes[0] !== "target"; // rows of the encoder have one kind of label
    if (!sentence) {
      for (const element of [texts, place]) element.replaceChildren();
      return;
    }
    const indices = store.shownRuns();
    const versions = indices.map((index) => ({ run: runs[index], sentence: store.sentence(index, state.id) }));
    const present = versions.filter((version) => version.sentence);
    texts.replaceChildren(...drawTexts(sentence, present, present.length > 1, state.query));
    keepPlace(place, () => {
      const sections = indices.map(() => htmlElement("section", { class: "run" }));
      const pictures = sections.map((section, i) => drawSection(section, store, indices[i], hooks)).filter(Boolean);
      place.replaceChildren(...sections);
      const level = pictures.length ? levelOf(pictures) : null;
      pictures.forEach(({ fill }) => fill(level));
    });
  }

  // Draws again if the width of the page or the colours of the system change, because pictures depend on them.
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
